package publish

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
)

// The records of a run are in a bundle as gzip makes them: a fifth of their size. The
// Merkle tree is over the compressed bytes, so that no byte of them can be changed.
const (
	streamSuffix     = ".wt"
	compressedSuffix = ".gz"
)

// Bounds on what the compressed records of a bundle may become, which a hostile author
// chooses: so much for each of their bytes, and so much in any case. Records of runs become
// some five times as large.
const (
	maxGrowth    = 100
	growthAlways = 64 << 20
)

// allowance is how many bytes records of this many compressed bytes may have.
func allowance(compressed int64) int64 { return growthAlways + maxGrowth*compressed }

// eachFile calls do with each file of a folder that ends so.
func eachFile(dir record.Dir, suffix string, do func(path string) error) error {
	return filepath.WalkDir(string(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		return do(path)
	})
}

// compressStreams puts each record stream of a folder into its compressed form. An error
// wraps record.ErrTooLarge where a reader would not expand them again.
func compressStreams(dir record.Dir) error {
	var whole, compressed int64
	err := eachFile(dir, streamSuffix, func(path string) error {
		was, is, err := convert(path, path+compressedSuffix, func(out io.Writer, in io.Reader) error {
			z, _ := gzip.NewWriterLevel(out, gzip.BestCompression) // a level that there is
			_, err := io.Copy(z, in)
			return errors.Join(err, z.Close())
		})
		whole, compressed = whole+was, compressed+is
		return err
	})
	if err == nil && whole > allowance(compressed) {
		err = record.ErrTooLarge
	}
	if err != nil {
		return fmt.Errorf("compress records: %w", err)
	}
	return nil
}

// expandStreams undoes compressStreams. What it writes together is bounded.
func expandStreams(dir record.Dir) error {
	var compressed int64
	err := eachFile(dir, streamSuffix+compressedSuffix, func(path string) error {
		info, err := os.Stat(path)
		if err == nil {
			compressed += info.Size()
		}
		return err
	})
	left := allowance(compressed)
	if err == nil {
		err = eachFile(dir, streamSuffix+compressedSuffix, func(path string) error {
			_, is, err := convert(path, strings.TrimSuffix(path, compressedSuffix), func(out io.Writer, in io.Reader) error {
				z, err := gzip.NewReader(in)
				if err != nil {
					return err
				}
				n, err := io.Copy(out, io.LimitReader(z, left+1))
				if n > left {
					return errors.Join(err, record.ErrTooLarge)
				}
				return err
			})
			left -= is
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("expand records: %w", err)
	}
	return nil
}

// convert makes the file to of the file from, removes from, and returns the sizes of both.
func convert(from, to string, with func(out io.Writer, in io.Reader) error) (was, is int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, 0, err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, 0, errors.Join(err, in.Close())
	}
	err = with(out, in)
	before, err1 := in.Stat()
	after, err2 := out.Stat()
	if err := errors.Join(err, err1, err2, in.Close(), out.Close()); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", filepath.Base(from), err)
	}
	return before.Size(), after.Size(), os.Remove(from)
}
