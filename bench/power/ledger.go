package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// ledger is the file of trials, a line each.
type ledger struct {
	file   *os.File
	trials []trial
}

// openLedger reads what is there. A last line that was cut off is taken away.
func openLedger(path string) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the file of trials: %w", err)
	}
	l := &ledger{file: file}
	raw, err := io.ReadAll(file)
	whole := raw[:bytes.LastIndexByte(raw, '\n')+1]
	if err == nil {
		err = errors.Join(file.Truncate(int64(len(whole))), seekEnd(file))
	}
	for line := range bytes.Lines(whole) {
		var t trial
		if err == nil {
			err = json.Unmarshal(line, &t)
		}
		l.trials = append(l.trials, t)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), file.Close())
	}
	return l, nil
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

// findTrial returns the n-th trial of this plan, if it is there.
func (l *ledger) findTrial(n int, p plan) (trial, bool) {
	for _, t := range l.trials {
		if t.Trial == n && t.Scenario == p.scenario && t.A == p.a && t.B == p.b && t.Set == p.set && t.Asked == p.runs && t.Measure == p.measure {
			return t, true
		}
	}
	return trial{}, false
}

// appendTrial adds a trial; it is on the disk when append returns.
func (l *ledger) appendTrial(t trial) error {
	line, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode trial %d: %w", t.Trial, err)
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write trial %d: %w", t.Trial, err)
	}
	l.trials = append(l.trials, t)
	return l.file.Sync()
}

func (l *ledger) close() { _ = l.file.Close() }
