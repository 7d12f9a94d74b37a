package protocol

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A copy of a program is the same build, one that is a byte longer or has another ID is
// not, and one without an ID is known by its bytes.
func TestBuildOf(t *testing.T) {
	own, err := Binary()
	if err != nil || !strings.HasPrefix(own, "go:") {
		t.Fatalf("this test has no build ID: %q, %v", own, err)
	}
	raw := repotest.Must(os.ReadFile("/proc/self/exe"))(t)
	id := []byte(own[strings.LastIndex(own, ":")+1:])
	other := append([]byte(nil), id...)
	other[len(other)-1] ^= 1
	nameless := bytes.ReplaceAll(raw, []byte("Go\x00\x00"+string(id)), []byte("No\x00\x00"+string(id)))
	shorter := append([]byte(nil), nameless...)
	shorter[len(shorter)-1] ^= 1
	for name, tt := range map[string]struct {
		bytes  []byte
		want   string // begins so
		equals bool   // the own
	}{
		"copy":         {raw, "go:", true},
		"longer":       {append(bytes.Clone(raw), 0), "go:", false},
		"another ID":   {bytes.ReplaceAll(raw, id, other), "go:", false},
		"no ID":        {nameless, "sha256:", false},
		"not a binary": {[]byte("#!/bin/sh\n"), "sha256:", false},
		"cut":          {raw[:100], "sha256:", false},
		"empty":        {nil, "sha256:", false},
	} {
		path := filepath.Join(t.TempDir(), "program")
		repotest.NoError(t, os.WriteFile(path, tt.bytes, 0o600))
		got, err := buildOf(path)
		if err != nil || !strings.HasPrefix(got, tt.want) || (got == own) != tt.equals {
			t.Errorf("%s: %q, %v; own %q", name, got, err, own)
		}
	}
	if a, b := sumOf(t, nameless), sumOf(t, shorter); a == b {
		t.Errorf("two programs without an ID are the same: %s", a)
	}
}

func sumOf(t *testing.T, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	repotest.NoError(t, os.WriteFile(path, raw, 0o600))
	return repotest.Must(buildOf(path))(t)
}

// What a file says of its own sizes is not believed.
func TestReadNote(t *testing.T) {
	for text, want := range map[string]string{
		"\x04\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00Go\x00\x00abc": "abc",
		"\x04\x00\x00\x00\xff\xff\xff\xff\x04\x00\x00\x00Go\x00\x00abc": "",
		"\x04\x00\x00\x00\x03\x00\x00\x00\x03\x00\x00\x00Go\x00\x00abc": "",
		"\x04\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00GNU\x00abc":    "",
		"\x04\x00\x00\x00": "",
		"":                 "",
	} {
		if got, _ := readNote([]byte(text), binary.LittleEndian); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
