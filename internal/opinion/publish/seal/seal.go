// Package seal signs what a bundle is: a statement in in-toto's form of test results, in a
// DSSE envelope, signed by an SSH key as `ssh-keygen -Y sign` does.
//
// Keys are those of Ed25519: their signatures are the same each time, and nobody can make a
// second signature of a first. It knows nothing of what a bundle holds.
package seal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"golang.org/x/crypto/ssh"
)

// Types of in-toto's forms, and the namespace of the SSH signature.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://in-toto.io/attestation/test-result/v0.1"
	PayloadType   = "application/vnd.in-toto+json"
	Namespace     = "windtunnel-bundle"
)

// Errors of an envelope.
var (
	ErrEnvelope  = errors.New("not an envelope in canonical form")
	ErrSignature = errors.New("the signature does not match")
	ErrKey       = errors.New("not a key that can be used")
)

// Statement says of a subject what its test gave.
type Statement struct {
	Type          string       `json:"_type"`
	Subject       []Descriptor `json:"subject"`
	PredicateType string       `json:"predicateType"`
	Predicate     TestResult   `json:"predicate"`
}

// Descriptor is a thing by its digest.
type Descriptor struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// TestResult is in-toto's predicate of tests.
type TestResult struct {
	Result        string       `json:"result"` // PASSED, WARNED or FAILED
	Configuration []Descriptor `json:"configuration"`
	PassedTests   []string     `json:"passedTests,omitempty"`
	WarnedTests   []string     `json:"warnedTests,omitempty"`
	FailedTests   []string     `json:"failedTests,omitempty"`
}

// SHA256 describes a thing by its SHA-256.
func SHA256(name string, sum []byte) Descriptor {
	return Descriptor{Name: name, Digest: map[string]string{"sha256": hex.EncodeToString(sum)}}
}

// Encode returns a statement's bytes.
func (s Statement) Encode() ([]byte, error) { return encode(s) }

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode statement: %w", err)
	}
	return b.Bytes(), nil
}

// Sign returns the envelope of a statement.
func Sign(statement []byte, key ssh.Signer) ([]byte, error) {
	signer, err := dsse.NewEnvelopeSigner(sshKey{key})
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	e, err := signer.SignPayload(context.Background(), PayloadType, statement)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return encode(e)
}

// Open returns the statement of an envelope and the key that has signed it. Whose key it
// is the caller has to know.
func Open(envelope []byte) (statement []byte, key ssh.PublicKey, err error) {
	var e dsse.Envelope
	if err := json.Unmarshal(envelope, &e); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if again, err := encode(e); err != nil || !bytes.Equal(again, envelope) || e.PayloadType != PayloadType || len(e.Signatures) != 1 {
		return nil, nil, ErrEnvelope
	}
	statement, err1 := base64.StdEncoding.Strict().DecodeString(e.Payload)
	blob, err2 := base64.StdEncoding.Strict().DecodeString(e.Signatures[0].Sig)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if key, err = checkSSH(dsse.PAE(PayloadType, statement), blob); err != nil {
		return nil, nil, err
	}
	if ssh.FingerprintSHA256(key) != e.Signatures[0].KeyID {
		return nil, nil, fmt.Errorf("%w: the key is not the one that it names", ErrEnvelope)
	}
	return statement, key, nil
}

// Decode reads a statement that Encode has written; any other bytes are refused.
func Decode(raw []byte) (Statement, error) {
	var s Statement
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if again, err := s.Encode(); err != nil || !bytes.Equal(again, raw) || s.Type != StatementType || s.PredicateType != PredicateType {
		return s, fmt.Errorf("%w: its statement", ErrEnvelope)
	}
	return s, nil
}

// PrivateKey reads a private key as ssh-keygen writes it, without a passphrase.
func PrivateKey(raw []byte) (ssh.Signer, error) {
	key, err := ssh.ParsePrivateKey(raw)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, fmt.Errorf("%w: it has a passphrase; make one without for bundles: ssh-keygen -t ed25519 -N '' -f FILE", ErrKey)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	case key.PublicKey().Type() != ssh.KeyAlgoED25519:
		return nil, fmt.Errorf("%w: it is %s, want %s: ssh-keygen -t ed25519", ErrKey, key.PublicKey().Type(), ssh.KeyAlgoED25519)
	}
	return key, nil
}

// Fingerprints reads who may sign: a fingerprint such as SHA256:..., or the text of a file
// of public keys, of authorized or allowed signers, a key a line.
func Fingerprints(text string) ([]string, error) {
	var out []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		at := slices.Index(words, ssh.KeyAlgoED25519)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case len(words) == 1 && strings.HasPrefix(words[0], "SHA256:"):
			out = append(out, words[0])
		case at >= 0 && at+1 < len(words):
			key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(strings.Join(words[at:at+2], " ")))
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrKey, err)
			}
			out = append(out, ssh.FingerprintSHA256(key))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no line has a key of type %s or a fingerprint SHA256:...", ErrKey, ssh.KeyAlgoED25519)
	}
	return out, nil
}
