package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Whether or not groups can be made here, none is left.
func TestTryLimitsLeavesNothing(t *testing.T) {
	if err := TryLimits(Limits{CPU: 1, Memory: 64 << 20}); err != nil {
		t.Log("no limits here:", err)
	}
	name := fmt.Sprintf("%s%d-try", namePrefix, os.Getpid())
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, "/"+name) {
			t.Errorf("left: %s", path)
		}
		return nil // groups of others come and go
	})
	repotest.NoError(t, err)
}
