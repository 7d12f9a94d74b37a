package protocol

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// Binary says which build the program of this process is: two processes whose answers
// are equal run the same file. See buildOf.
func Binary() (string, error) { return buildOf("/proc/self/exe") }

// buildOf returns the size of a program and its Go build ID, in which the go command has
// put a hash of all that the program was made of, so that some kilobytes are read where
// the file has 170 MB. It tells builds apart and does not protect from anybody who alters
// a file and leaves its ID: whoever starts workers is trusted with the plane's credentials
// anyway. A program without an ID is known by the SHA-256 of its bytes.
func buildOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the own program: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("read the own program: %w", err)
	}
	if id := goBuildID(file); id != "" {
		return fmt.Sprintf("go:%d:%s", info.Size(), id), nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, info.Size())); err != nil {
		return "", fmt.Errorf("read the own program: %w", err)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// noteGoBuildID is the type of the note with the ID, whose name is "Go".
const noteGoBuildID = 4

// goBuildID returns the ID that the go command has given a program; empty: it has none.
func goBuildID(file io.ReaderAt) string {
	program, err := elf.NewFile(file)
	if err != nil {
		return ""
	}
	section := program.Section(".note.go.buildid")
	if section == nil {
		return ""
	}
	note, err := section.Data()
	if err != nil {
		return ""
	}
	id, err := readNote(note, program.ByteOrder)
	if err != nil {
		return ""
	}
	return id
}

var errNote = errors.New("not the note of a Go build ID")

// readNote reads an ELF note: the sizes of name and text, the type, name and text.
func readNote(note []byte, order binary.ByteOrder) (string, error) {
	const head, name = 12, 4
	if len(note) < head+name {
		return "", errNote
	}
	names, size, kind := order.Uint32(note), order.Uint32(note[4:]), order.Uint32(note[8:])
	if names != name || kind != noteGoBuildID || string(note[head:head+name]) != "Go\x00\x00" || uint64(size) > uint64(len(note)-head-name) {
		return "", errNote
	}
	return string(note[head+name:][:size]), nil
}
