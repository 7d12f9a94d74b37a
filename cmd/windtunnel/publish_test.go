package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"
)

// makePublished writes what is published: five runs in the folder sides, and the files
// key and key.pub of a new key.
func makePublished(dir string) error {
	for i := range 5 {
		s := side{"none", uint64(i), 10*time.Millisecond + time.Duration(i)*time.Microsecond, 2, true}
		if err := s.write(filepath.Join(dir, "sides", fmt.Sprintf("run%d", i+1))); err != nil {
			return err
		}
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		return err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "key"), pem.EncodeToMemory(block), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pub"), ssh.MarshalAuthorizedKey(key), 0o600),
	)
}
