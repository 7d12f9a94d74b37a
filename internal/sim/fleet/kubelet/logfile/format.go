package logfile

import (
	"bytes"
	"encoding/json"
	"time"
)

// timeFormat is RFC 3339 with all nine digits, as kubelets write it.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// message is one line of a log.
type message struct {
	at      time.Time
	stderr  bool
	partial bool // the next line continues it
	text    []byte
}

// parser reads one line; false when it is not in the parser's format.
type parser func(line []byte, m *message) bool

// parserFor returns the parser that reads a line, or nil.
func parserFor(line []byte) parser {
	for _, p := range []parser{parseCRI, parseDocker} {
		if p(line, &message{}) {
			return p
		}
	}
	return nil
}

// parseCRI reads the format of container runtimes, such as
//
//	2016-10-06T00:17:09.669794202Z stdout F what was written
//
// where P in place of F says that the line goes on. The format:
// https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
func parseCRI(line []byte, m *message) bool {
	stamp, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return false
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok || !isStream(string(stream)) {
		return false
	}
	tags, text, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return false
	}
	tag, _, _ := bytes.Cut(tags, []byte(":"))
	*m = message{at: at, stderr: string(stream) == "stderr", partial: string(tag) == "P", text: text}
	if m.partial {
		m.text = bytes.TrimSuffix(text, []byte("\n"))
	}
	return true
}

// parseDocker reads Docker's format, such as
//
//	{"log":"what was written\n","stream":"stdout","time":"2016-10-20T18:39:20.57606443Z"}
func parseDocker(line []byte, m *message) bool {
	var l struct {
		Log    string    `json:"log"`
		Stream string    `json:"stream"`
		Time   time.Time `json:"time"`
	}
	if err := json.Unmarshal(line, &l); err != nil || !isStream(l.Stream) {
		return false
	}
	*m = message{at: l.Time, stderr: l.Stream == "stderr", partial: len(l.Log) > 0 && l.Log[len(l.Log)-1] != '\n', text: []byte(l.Log)}
	return true
}

func isStream(s string) bool { return s == "stdout" || s == "stderr" }
