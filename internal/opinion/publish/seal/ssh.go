package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha512"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// The form of `ssh-keygen -Y sign`: PROTOCOL.sshsig of OpenSSH.
const (
	sshMagic   = "SSHSIG"
	sshVersion = 1
	sshHash    = "sha512"
)

// sshBlob is a signature behind the magic.
type sshBlob struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// sshMessage is what is signed, behind the magic.
type sshMessage struct {
	Namespace string
	Reserved  string
	Hash      string
	Sum       []byte
}

func messageOf(data []byte) []byte {
	sum := sha512.Sum512(data)
	return append([]byte(sshMagic), ssh.Marshal(sshMessage{Namespace: Namespace, Hash: sshHash, Sum: sum[:]})...)
}

// sshKey signs envelopes.
type sshKey struct{ key ssh.Signer }

// Sign returns the SSH signature of data.
func (k sshKey) Sign(_ context.Context, data []byte) ([]byte, error) {
	signature, err := k.key.Sign(rand.Reader, messageOf(data))
	if err != nil {
		return nil, err
	}
	return append([]byte(sshMagic), ssh.Marshal(sshBlob{
		Version: sshVersion, PublicKey: k.key.PublicKey().Marshal(), Namespace: Namespace, Hash: sshHash, Signature: ssh.Marshal(signature),
	})...), nil
}

// KeyID is the fingerprint of the key.
func (k sshKey) KeyID() (string, error) { return ssh.FingerprintSHA256(k.key.PublicKey()), nil }

// checkSSH returns the key whose SSH signature of data the blob is.
func checkSSH(data, raw []byte) (ssh.PublicKey, error) {
	rest, ok := bytes.CutPrefix(raw, []byte(sshMagic))
	var blob sshBlob
	if !ok || ssh.Unmarshal(rest, &blob) != nil {
		return nil, fmt.Errorf("%w: not an SSH signature", ErrEnvelope)
	}
	if !bytes.Equal(ssh.Marshal(blob), rest) || blob.Version != sshVersion || blob.Namespace != Namespace || blob.Reserved != "" || blob.Hash != sshHash {
		return nil, fmt.Errorf("%w: an SSH signature of another kind", ErrEnvelope)
	}
	key, err := ssh.ParsePublicKey(blob.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	var signature ssh.Signature
	if key.Type() != ssh.KeyAlgoED25519 || !bytes.Equal(key.Marshal(), blob.PublicKey) {
		return nil, fmt.Errorf("%w: it is %s, want %s", ErrKey, key.Type(), ssh.KeyAlgoED25519)
	}
	if err := ssh.Unmarshal(blob.Signature, &signature); err != nil || !bytes.Equal(ssh.Marshal(signature), blob.Signature) || len(signature.Rest) > 0 {
		return nil, fmt.Errorf("%w: an SSH signature of another kind", ErrEnvelope)
	}
	if err := key.Verify(messageOf(data), &signature); err != nil {
		return nil, ErrSignature
	}
	return key, nil
}
