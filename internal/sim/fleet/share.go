package fleet

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/share"
)

// checkShare says what is wrong with a share of a fleet.
func checkShare(s share.Share) error {
	if !s.Valid() || s.Of > maxNodes {
		return fmt.Errorf("fleet: share %d of %d: shares count from 0", s.Index, s.Of)
	}
	return nil
}
