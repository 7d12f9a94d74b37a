package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// uploader brings a worker's stream to the leader. The stream's own file is what
// waits: a leader that is slow holds nothing up and loses nothing, it is behind.
type uploader struct {
	worker  *Worker
	records *record.Writer
	path    string

	file  *os.File
	taken int64 // bytes that the leader has
	buf   []byte
}

// pieceSize is how many bytes are brought at a time, unless a block has more.
const pieceSize = 1 << 20

// uploadUntilDone brings what there is every so often until ctx ends. With nothing to bring the
// leader still hears of the worker.
func (c *uploader) uploadUntilDone(ctx context.Context) error {
	for n := 1; clock.Sleep(ctx, flushInterval) == nil; n++ {
		c.records.Flush()
		brought, err := c.uploadPiece(ctx, n%int(probeInterval/flushInterval) == 0)
		if err == nil && brought {
			err = c.uploadRest(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// flushedSize flushes the records and returns how long the stream is by now.
func (c *uploader) flushedSize() (int64, error) {
	c.records.Flush()
	info, err := os.Stat(c.path)
	if err != nil {
		return 0, fmt.Errorf("read the own records: %w", err)
	}
	return info.Size(), nil
}

// uploadRest brings all that there is.
func (c *uploader) uploadRest(ctx context.Context) error {
	for {
		brought, err := c.uploadPiece(ctx, false)
		if err != nil || !brought {
			return err
		}
	}
}

func (c *uploader) closeFile() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// uploadPiece brings the next piece; false when there was none. With empty an empty piece is
// brought, too.
func (c *uploader) uploadPiece(ctx context.Context, empty bool) (bool, error) {
	piece, err := c.readPiece()
	if err != nil || len(piece) == 0 && !empty {
		return false, err
	}
	stands := c.worker.clockNow()
	path := fmt.Sprintf("/records?at=%d&clock=%d,%d,%t", c.taken, stands.Offset, stands.Bound, stands.Jumped)
	var has stored
	err = c.worker.retryUntilAnswered(ctx, func() error { return c.worker.request(ctx, http.MethodPut, path, piece, &has) })
	if err != nil {
		return false, err
	}
	if stands.Jumped {
		c.worker.mu.Lock()
		c.worker.estimate.Restart()
		c.worker.mu.Unlock()
	}
	c.taken = has.Size // where a piece was lost, or came twice, the leader says where it stands
	return len(piece) > 0, nil
}

// readPiece reads the next whole blocks.
func (c *uploader) readPiece() ([]byte, error) {
	if c.file == nil {
		var err error
		if c.file, err = os.Open(c.path); err != nil {
			return nil, fmt.Errorf("read the own records: %w", err)
		}
		c.buf = make([]byte, pieceSize)
	}
	for {
		n, err := c.file.ReadAt(c.buf, c.taken)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the own records: %w", err)
		}
		whole, err := record.WholeBlocks(c.buf[:n], c.taken == 0)
		if err != nil {
			return nil, fmt.Errorf("read the own records: %w", err)
		}
		if whole > 0 || n < len(c.buf) {
			return c.buf[:whole], nil
		}
		c.buf = make([]byte, 2*len(c.buf)) // one block is larger
	}
}
