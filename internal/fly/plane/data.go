package plane

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/unit"
)

const (
	durabilityMemory = "memory"
	durabilityFsync  = "fsync"

	gib          = 1 << 30
	minMemory    = 2 * gib    // free on a tmpfs, for data to be put there
	minDisk      = gib / 2    // free on a disk: write-ahead logs alone take 128 MiB
	largestQuota = 8 * gib    // etcd's own advice for the most
	sharedMemory = "/dev/shm" // a tmpfs on every distribution
)

// dataFolder is a folder that data can be put in.
type dataFolder struct {
	base  string
	tmpfs bool
	free  uint64 // bytes
}

// dataFolders returns the folders of this machine that can be used.
func dataFolders() []dataFolder {
	var out []dataFolder
	for _, base := range baseFolders() {
		if r, err := measureFolder(base); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// baseFolders are the folders in which private folders of runs are made.
func baseFolders() []string {
	out := []string{sharedMemory, os.TempDir()}
	if os.TempDir() != "/var/tmp" {
		out = append(out, "/var/tmp")
	}
	return out
}

// measureFolder measures a folder. What a tmpfs has free is no more than the memory
// that is free.
func measureFolder(base string) (dataFolder, error) {
	space, err := kernel.Disk(base)
	if err != nil {
		return dataFolder{}, fmt.Errorf("measure disk space in %s: %w", base, err)
	}
	r := dataFolder{base: base, free: space.Free, tmpfs: space.InMemory}
	if r.tmpfs {
		if memory, ok := availableMemory(); ok {
			r.free = min(r.free, memory)
		}
	}
	return r, nil
}

func availableMemory() (uint64, bool) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer file.Close()
	for in := bufio.NewScanner(file); in.Scan(); {
		if f := strings.Fields(in.Text()); len(f) >= 2 && f[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(f[1], 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// AvailableMemory is how much memory can be taken now, in bytes; 0 if unknown.
func AvailableMemory() uint64 {
	n, _ := availableMemory()
	return n
}

// chooseFolder chooses for a durability: memory takes a roomy tmpfs before a
// disk, fsync a disk, since a tmpfs forgets whatever is synced to it.
func chooseFolder(durability string, all []dataFolder) (dataFolder, string, error) {
	var disk, tmpfs *dataFolder
	for i, r := range all {
		switch {
		case r.tmpfs && r.free >= minMemory && tmpfs == nil:
			tmpfs = &all[i]
		case !r.tmpfs && r.free >= minDisk && disk == nil:
			disk = &all[i]
		}
	}
	switch {
	case durability == durabilityMemory && tmpfs != nil:
		return *tmpfs, "", nil
	case disk != nil && durability == durabilityMemory:
		return *disk, "etcd's data are on disk: no tmpfs has 2 GiB free", nil
	case disk != nil:
		return *disk, "", nil
	case tmpfs != nil:
		return *tmpfs, "etcd's data are on a tmpfs, where fsync costs nothing: no disk has room", nil
	}
	return dataFolder{}, "", errNoSpace(all)
}

func errNoSpace(all []dataFolder) error {
	var seen []string
	for _, r := range all {
		seen = append(seen, fmt.Sprintf("%s has %s free", r.base, unit.Bytes(r.free).Human()))
	}
	return fmt.Errorf("%w: %s; %s are needed on a disk, or %s on a tmpfs", ErrNoSpace, strings.Join(seen, ", "),
		unit.Bytes(minDisk).Human(), unit.Bytes(minMemory).Human())
}

// quotaFor returns how much etcd may store.
func quotaFor(r dataFolder) uint64 { return min(largestQuota, r.free/4*3) }

// storageOf says what a folder is on: tmpfs or disk. The folder itself need not
// exist yet.
func storageOf(dir string) string {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		r, err := measureFolder(d)
		switch {
		case err == nil && r.tmpfs:
			return "tmpfs"
		case err == nil || d == filepath.Dir(d):
			return "disk"
		}
	}
}

// DiskSpace is where the data of a plane on this machine would be put.
type DiskSpace struct {
	Folder   string // below which
	InMemory bool   // it is a tmpfs
	Free     uint64 // bytes
	Quota    uint64 // bytes that etcd would be allowed
}

// DiskSpaceFor measures where a plane of such a durability ("memory" or "fsync")
// would put its data if it were started now. The error is ErrNoSpace.
func DiskSpaceFor(durability string) (DiskSpace, error) {
	r, _, err := chooseFolder(durability, dataFolders())
	if err != nil {
		return DiskSpace{}, err
	}
	return DiskSpace{Folder: r.base, InMemory: r.tmpfs, Free: r.free, Quota: quotaFor(r)}, nil
}
