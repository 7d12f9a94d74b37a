package protocol

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/windtunnel/windtunnel/internal/record"
)

// errDamaged says that bytes of a stream are not whole blocks.
var errDamaged = errors.New("not whole blocks of records")

// spool keeps the stream of one worker as it was written, byte by byte. The worker
// says where in its stream each piece belongs, so that one that comes twice, too late
// or too early does no harm.
type spool struct {
	mu   sync.Mutex
	path string
	file *os.File
	size int64
	end  int64 // of the stream, where the worker has said it; else -1
}

func createSpool(path string) (*spool, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep a worker's records: %w", err)
	}
	return &spool{path: path, file: file, end: -1}, nil
}

// appendPiece appends a piece that begins at byte at of the stream, and returns how many bytes
// there are. A piece that does not begin there is not taken; only one that is damaged,
// or cannot be written, is an error.
func (k *spool) appendPiece(at int64, piece []byte) (size int64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at != k.size || len(piece) == 0 {
		return k.size, nil
	}
	if n, err := record.WholeBlocks(piece, at == 0); err != nil || n != len(piece) {
		return k.size, errors.Join(fmt.Errorf("%w: %d of %d bytes at %d", errDamaged, n, len(piece), at), err)
	}
	if _, err := k.file.Write(piece); err != nil {
		return k.size, errors.Join(fmt.Errorf("keep a worker's records: %w", err), k.file.Truncate(k.size))
	}
	k.size += int64(len(piece))
	return k.size, nil
}

// setEnd says where the stream ends.
func (k *spool) setEnd(end int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end = end
}

// isComplete tells whether all of the stream is there.
func (k *spool) isComplete() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.end >= 0 && k.size >= k.end
}

func (k *spool) closeFile() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file.Close()
}
