package seal_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	testresult "github.com/in-toto/attestation/go/predicates/test_result/v0"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"golang.org/x/crypto/ssh"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/windtunnel/windtunnel/internal/opinion/publish/seal"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func statement(t testing.TB) []byte {
	t.Helper()
	raw := repotest.Must(seal.Statement{
		Type: seal.StatementType, Subject: []seal.Descriptor{seal.SHA256("a <bundle>", make([]byte, 32))}, PredicateType: seal.PredicateType,
		Predicate: seal.TestResult{Result: "WARNED", Configuration: []seal.Descriptor{seal.SHA256("scenario.yaml", make([]byte, 32))}, PassedTests: []string{"x"}, WarnedTests: []string{"y"}},
	}.Encode())(t)
	return raw
}

// TestInToto reads a statement with in-toto's own types.
func TestInToto(t *testing.T) {
	var s intoto.Statement
	repotest.NoError(t, protojson.Unmarshal(statement(t), &s))
	repotest.NoError(t, s.Validate())
	raw := repotest.Must(s.GetPredicate().MarshalJSON())(t)
	var result testresult.TestResult
	repotest.NoError(t, protojson.Unmarshal(raw, &result))
	if result.GetResult() != "WARNED" || result.GetPassedTests()[0] != "x" || s.GetPredicateType() != seal.PredicateType {
		t.Errorf("%v", &result)
	}
}

// TestSSHKeygen checks an envelope with the program ssh-keygen, whose key has signed it.
func TestSSHKeygen(t *testing.T) {
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "key")
	if out, err := exec.Command(program, "-q", "-t", "ed25519", "-N", "", "-C", "author", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw := repotest.Must(os.ReadFile(file))(t)
	key := repotest.Must(seal.PrivateKey(raw))(t)
	envelope := repotest.Must(seal.Sign(statement(t), key))(t)
	got, public, err := seal.Open(envelope)
	repotest.NoError(t, err)
	if string(got) != string(statement(t)) {
		t.Errorf("%s", got)
	}
	var e dsse.Envelope
	repotest.NoError(t, json.Unmarshal(envelope, &e))
	blob := repotest.Must(base64.StdEncoding.DecodeString(e.Signatures[0].Sig))(t)
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "sig"), pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: blob}), 0o600))
	line := repotest.Must(os.ReadFile(file + ".pub"))(t)
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "signers"), append([]byte("author "), line...), 0o600))
	check := exec.Command(program, "-Y", "verify", "-f", filepath.Join(folder, "signers"), "-I", "author", "-n", seal.Namespace, "-s", filepath.Join(folder, "sig"))
	check.Stdin = strings.NewReader(string(dsse.PAE(seal.PayloadType, got)))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, text := range []string{string(line), "author " + string(line), ssh.FingerprintSHA256(public), "# of us\n\nx namespaces=\"windtunnel-bundle\" " + string(line)} {
		if keys, err := seal.Fingerprints(text); err != nil || len(keys) != 1 || keys[0] != ssh.FingerprintSHA256(public) {
			t.Errorf("%q: %v, %v", text, keys, err)
		}
	}
	if out, err := exec.Command(program, "-q", "-p", "-P", "", "-N", "words", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw = repotest.Must(os.ReadFile(file))(t)
	if _, err := seal.PrivateKey(raw); !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), "passphrase") {
		t.Errorf("a locked key: %v", err)
	}
}

// TestRefused has envelopes and keys that are not as they should be.
func TestRefused(t *testing.T) {
	key := repotest.Must(ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, 32))))(t)
	envelope := repotest.Must(seal.Sign(statement(t), key))(t)
	again := repotest.Must(seal.Sign(statement(t), key))(t)
	if string(again) != string(envelope) {
		t.Error("two signatures of one statement differ")
	}
	var e dsse.Envelope
	repotest.NoError(t, json.Unmarshal(envelope, &e))
	edit := func(change func(e *dsse.Envelope)) []byte {
		c := e
		c.Signatures = append([]dsse.Signature{}, e.Signatures...)
		change(&c)
		raw := repotest.Must(json.Marshal(c))(t)
		return append(raw, '\n')
	}
	for name, raw := range map[string][]byte{
		"nothing":          nil,
		"spaces":           append([]byte(" "), envelope...),
		"another type":     edit(func(e *dsse.Envelope) { e.PayloadType = "text/plain" }),
		"another payload":  edit(func(e *dsse.Envelope) { e.Payload = base64.StdEncoding.EncodeToString([]byte("{}")) }),
		"two signatures":   edit(func(e *dsse.Envelope) { e.Signatures = append(e.Signatures, e.Signatures[0]) }),
		"no signature":     edit(func(e *dsse.Envelope) { e.Signatures = nil }),
		"an empty one":     edit(func(e *dsse.Envelope) { e.Signatures[0].Sig = "" }),
		"a plain one":      edit(func(e *dsse.Envelope) { e.Signatures[0].Sig = base64.StdEncoding.EncodeToString(make([]byte, 64)) }),
		"another key's ID": edit(func(e *dsse.Envelope) { e.Signatures[0].KeyID = "SHA256:x" }),
	} {
		if _, _, err := seal.Open(raw); !errors.Is(err, seal.ErrEnvelope) && !errors.Is(err, seal.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := seal.Decode([]byte("{}\n")); !errors.Is(err, seal.ErrEnvelope) {
		t.Error(err)
	}
	for _, text := range []string{"", "# nothing", "ssh-rsa AAAA x", "ssh-ed25519 AAAA x"} {
		if _, err := seal.Fingerprints(text); !errors.Is(err, seal.ErrKey) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := seal.PrivateKey([]byte("no key")); !errors.Is(err, seal.ErrKey) {
		t.Error(err)
	}
}
