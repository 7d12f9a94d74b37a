package record

import (
	"errors"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// A checksum is no proof of who wrote a stream: people open run directories that
// others sent them. So a reader believes no time that a run cannot have, and takes
// no more memory than the stream's size warrants.

// maxTime is how far from the run's begin a time may be. No run lasts that long,
// and those who read records may add and subtract such times without overflow.
const maxTime = clock.Time(366 * 24 * time.Hour)

// Errors of what only damage or malice writes.
var (
	errTime   = errors.New("damaged record: a time that is more than a year from the run's begin")
	errMemory = errors.New("what it defines would take far more memory than its own size: it is damaged, or was made to")
)

// What definitions take in the memory of all that read them, in bytes. Samples and
// calls are not counted: they take some times their size.
const (
	costOp        = 1 << 10
	costObject    = 500 // its texts are 112; the list of them is copied as it grows, and the collector waits for as much again
	costSeries    = 200
	costLabel     = 32
	costText      = 32
	costFamily    = 160
	costEvent     = 400
	costHistogram = 400
	costBucket    = 16
	costGone      = 8
	costAccess    = 300 // less than one of a run earns, whose texts have some 80 bytes: whoever checks them keeps several indices of them
	costWritten   = 8   // so many bytes that are written out count as one of memory
)

// A stream may take so much memory for definitions: some for itself, and some for
// each of its bytes.
const (
	earnFloor  = 256 << 20
	earnFactor = 4
)

// fewLabels is for how many labels memory is taken before they were read.
const fewLabels = 32

func (s *Stream) earnBudget(bytes int) {
	if s.earned == 0 {
		s.earned = earnFloor
	}
	s.earned += earnFactor * int64(bytes)
}

// Spend counts memory that a visitor takes for what it was told, beyond some times
// the size of a call or sample. When the stream does not warrant it the reading ends
// with an error.
func (s *Stream) Spend(bytes int) {
	if s.spent += int64(bytes); s.spent > s.earned {
		s.Refuse(errMemory)
	}
}

// Refuse ends the reading with an error: a visitor does not believe what it was told.
func (s *Stream) Refuse(why error) {
	if s.refused == nil {
		s.refused = why
	}
}

// defineSeries takes a series. Whoever writes it out writes its texts each time, however
// often the stream refers to one.
func (s *Stream) defineSeries(c *cursor, one Series) {
	written := len(one.Target) + len(one.Name)
	for _, l := range one.Labels {
		written += len(l.Name) + len(l.Value)
	}
	s.Spend(costSeries + costLabel*len(one.Labels) + written/costWritten)
	if c.bad == nil {
		s.Series = append(s.Series, one)
	}
}
