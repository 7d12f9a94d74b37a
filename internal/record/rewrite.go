package record

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// span is where a text of a block lies, with its length before it.
type span struct {
	from, to int
	text     string
}

// RewriteStream writes the stream name of the folder to w. Every text in it is replaced by
// what edit returns; all other bytes stay as they are. What a crash left behind the last
// whole block is replaced by as many zeros: a reader finds the stream cut off as before.
func (d Dir) RewriteStream(w io.Writer, name string, edit func(string) string) error {
	file, err := d.Open(name)
	if err != nil {
		return fmt.Errorf("open record stream: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("open record stream: %w", err)
	}
	in := bufio.NewReaderSize(file, 1<<20)
	s := &Stream{spans: new([]span)}
	if s.Format, err = readHeader(in, d.File(name)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%s%d\n", streamTitle, s.Format); err != nil {
		return err
	}
	var out []byte
	err = s.eachBlock(in, info.Size(), func(block []byte) error {
		*s.spans = (*s.spans)[:0]
		if err := s.decodeBlock(block, Visitor{}); err != nil {
			return err
		}
		out = editBlock(out[:0], block, *s.spans, edit)
		_, err := w.Write(out)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", d.File(name), err)
	}
	_, err = io.CopyN(w, zeros{}, s.LostBytes)
	return err
}

// editBlock appends a block with edited texts, with its head.
func editBlock(out, block []byte, spans []span, edit func(string) string) []byte {
	out = append(out, make([]byte, blockHead)...)
	at := 0
	for _, s := range spans {
		text := edit(s.text)
		out = append(out, block[at:s.from]...)
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
		at = s.to
	}
	out = append(out, block[at:]...)
	binary.LittleEndian.PutUint32(out, uint32(len(out)-blockHead))
	binary.LittleEndian.PutUint32(out[4:], crc32.Checksum(out[blockHead:], crcTable))
	return out
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// eachBlock reads all whole blocks of a stream of so many bytes, behind its header, and
// sets what could not be read.
func (s *Stream) eachBlock(in io.Reader, size int64, do func(block []byte) error) error {
	read := int64(len(streamHeader))
	var block []byte
	for {
		var err error
		if block, err = nextBlock(in, block, size-read); err != nil {
			s.LostBytes = size - read
			s.CutOff = s.LostBytes > 0
			if !errors.Is(err, io.EOF) && !errors.Is(err, errTorn) {
				return fmt.Errorf("read record stream: %w", err)
			}
			return nil
		}
		if err := do(block); err != nil {
			return fmt.Errorf("block at byte %d: %w", read, err)
		}
		read += int64(len(block)) + blockHead
	}
}
