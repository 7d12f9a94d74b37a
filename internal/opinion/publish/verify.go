package publish

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/archive"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/seal"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Check is one thing that was checked of a bundle.
type Check struct {
	Name  string `json:"name"`
	State string `json:"state"` // holds, fails or unknown
	Why   string `json:"why"`
}

// Verification is what the checks of a bundle gave.
type Verification struct {
	State   string   `json:"state"` // that of the worst check
	Signer  string   `json:"signer,omitempty"`
	Checks  []Check  `json:"checks"`
	Results *Results `json:"results,omitempty"` // as computed here; nil: that far it did not get
	Report  string   `json:"-"`                 // likewise, the page
	// Reproduced are the trusted keys of others by whose flights every claim agrees, if the
	// result is publishable.
	Reproduced []string `json:"reproduced,omitempty"`
	// Runs are those that came to their end, as judged here; nil: that far it did not get.
	Runs []compare.Run `json:"-"`
}

// verifier checks one bundle.
type verifier struct {
	archive *archive.Archive
	signers []string
	madeBy  string
	out     Verification

	published *Published // of a bundle whose results were computed
}

// Verify checks the bundle at path. signers are fingerprints of who may have signed it;
// madeBy is the version of this windtunnel. An error says that the bundle cannot be opened
// or that there is no room for it, or is the cause of a context that ended; whatever is wrong inside is a check that fails.
func Verify(ctx context.Context, path string, signers []string, madeBy string) (*Verification, error) {
	v := &verifier{signers: signers, madeBy: madeBy}
	return &v.out, v.check(ctx, path)
}

// check makes all checks.
func (v *verifier) check(ctx context.Context, path string) error {
	a, err := archive.Open(path)
	switch {
	case errors.Is(err, archive.ErrForm):
		v.add("form", Fails, err.Error())
	case err != nil:
		return err
	default:
		defer a.Close()
		v.archive = a
		v.add("form", Holds, unit.Count(len(a.Digests()), "files")+" in canonical form")
		if err := v.checkContents(ctx); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	v.out.State = Holds
	for _, c := range v.out.Checks {
		if c.State == Fails || v.out.State == Holds {
			v.out.State = c.State
		}
		if v.out.State == Fails {
			break
		}
	}
	return nil
}

func (v *verifier) add(name, state, why string) {
	v.out.Checks = append(v.out.Checks, Check{name, state, why})
}

// checkContents checks what is in a bundle. What is not what was signed is not looked at
// any further, and never written to the disk.
func (v *verifier) checkContents(ctx context.Context) error {
	statement, ok := v.checkSignature()
	if !ok || !v.checkDigests(statement) {
		return nil
	}
	raw, err := v.archive.Read(IndexFile)
	if err != nil {
		v.add("index", Fails, err.Error())
		return nil
	}
	x, err := decodeIndex(raw)
	switch {
	case err != nil:
		v.add("index", Fails, err.Error())
		return nil
	case x.Format > Format:
		v.add("index", Unknown, fmt.Sprintf("the bundle has format %d, this version reads format %d: its digests and signature were checked, not its results", x.Format, Format))
		return nil
	}
	if unknown := x.unknownFiles(slices.Sorted(maps.Keys(v.archive.Digests()))); len(unknown) > 0 {
		v.add("files", Fails, "these have no place in a bundle: "+strings.Join(unknown, ", "))
		return nil
	}
	return v.checkResults(ctx, &x, statement)
}

// checkSignature returns the statement of the bundle, unless its signature is wrong.
func (v *verifier) checkSignature() (statement []byte, ok bool) {
	_, signed := v.archive.Digests()[EnvelopeFile]
	_, plain := v.archive.Digests()[StatementFile]
	if signed == plain {
		v.add("signature", Fails, "want one statement, signed or not")
		return nil, false
	}
	raw, err := v.archive.Read(map[bool]string{true: EnvelopeFile, false: StatementFile}[signed])
	if err != nil {
		v.add("signature", Fails, err.Error())
		return nil, false
	}
	if plain {
		v.add("signature", Unknown, "the bundle is not signed: anybody may have made it")
		return raw, true
	}
	statement, key, err := seal.Open(raw)
	if err != nil {
		v.add("signature", Fails, err.Error())
		return nil, false
	}
	v.out.Signer = ssh.FingerprintSHA256(key)
	switch {
	case len(v.signers) == 0:
		v.add("signature", Unknown, fmt.Sprintf("signed by %s; say with --signer whose key you trust", v.out.Signer))
	case !slices.Contains(v.signers, v.out.Signer):
		v.add("signature", Fails, fmt.Sprintf("signed by %s, which is no key that you trust", v.out.Signer))
		return nil, false
	default:
		v.add("signature", Holds, "signed by "+v.out.Signer)
	}
	return statement, true
}

// checkDigests checks that the files are those that the statement is about.
func (v *verifier) checkDigests(statement []byte) bool {
	s, err := seal.Decode(statement)
	if err != nil {
		v.add("digests", Fails, err.Error())
		return false
	}
	sums := v.sums()
	raw, err := v.archive.Read(SumsFile)
	switch root := archive.Root(sums); {
	case err != nil:
		v.add("digests", Fails, err.Error())
	case string(raw) != sums:
		v.add("digests", Fails, SumsFile+" does not list the files that are there")
	case len(s.Subject) != 1 || s.Subject[0].Digest["sha256"] != fmt.Sprintf("%x", root):
		v.add("digests", Fails, fmt.Sprintf("the statement is about other files: these have the Merkle root %x", root))
	default:
		v.add("digests", Holds, fmt.Sprintf("Merkle root %x", root))
		return true
	}
	return false
}

// checkResults computes everything again.
func (v *verifier) checkResults(ctx context.Context, x *Index, statement []byte) error {
	folder, err := os.MkdirTemp("", "windtunnel-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := v.archive.Unpack(record.Dir(folder)); err != nil {
		return err
	}
	if err := expandStreams(record.Dir(folder)); err != nil {
		var disk *fs.PathError
		if errors.As(err, &disk) {
			return err
		}
		v.add("results", Fails, err.Error())
		return nil
	}
	b, err := build(ctx, record.Dir(folder), x)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		v.add("results", Fails, strings.ReplaceAll(err.Error(), folder+"/", ""))
		return nil
	}
	v.out.Results, v.out.Report = &b.results, string(b.files[ReportFile])
	v.out.Runs = slices.Concat(b.measured.sides...)
	v.published = &Published{*x, b.results, archive.Root(v.sums()), b.measured, b.claims}
	want, err := newStatement(v.sums(), v.contents(), &b.results).Encode()
	differ := v.differing(b)
	if err != nil || !bytes.Equal(want, statement) {
		differ = append(differ, "the statement")
	}
	switch {
	case len(differ) == 0:
		v.add("results", Holds, fmt.Sprintf("%s computed again from the records of %s: the same bytes", unit.Count(len(b.files), "files"), unit.Count(len(b.results.Runs), "runs")))
	case x.MadeBy != v.madeBy:
		v.add("results", Unknown, fmt.Sprintf("windtunnel %s made it and this is %s, which computes something else: %s", cmp.Or(x.MadeBy, "of no version"), v.madeBy, strings.Join(differ, ", ")))
	default:
		v.add("results", Fails, "the records say something else than "+strings.Join(differ, ", "))
	}
	for _, c := range b.results.Claims {
		v.add("claim", c.State, c.Sentence())
	}
	if missing := b.results.Missing; len(missing) > 0 {
		v.add("complete", Unknown, "mentioned and not there: "+strings.Join(missing, ", "))
	} else {
		v.add("complete", Holds, fmt.Sprintf("every run that is mentioned is there, or left out with a reason (%d)", len(b.results.LeftOut)))
	}
	v.checkExecutables(b.results.Executables)
	v.checkReproductions()
	return nil
}

// contents are the digests of the files that the Merkle tree is over.
func (v *verifier) contents() map[string]archive.Digest {
	out := maps.Clone(v.archive.Digests())
	maps.DeleteFunc(out, func(name string, _ archive.Digest) bool {
		return slices.Contains([]string{SumsFile, StatementFile, EnvelopeFile}, name) || reproductionFile.MatchString(name)
	})
	return out
}

func (v *verifier) sums() string {
	return archive.Sums(slices.Sorted(maps.Keys(v.contents())), v.archive.Digests())
}

// differing lists the computed files that the bundle has otherwise, or not at all, or that
// nothing computes.
func (v *verifier) differing(b *built) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		raw, err := v.archive.Read(name)
		if err != nil || !bytes.Equal(raw, b.files[name]) {
			out = append(out, name)
		}
	}
	for _, name := range []string{ComparisonFile, ControlFile} {
		_, there := v.archive.Digests()[name]
		if _, computed := b.files[name]; there && !computed {
			out = append(out, name)
		}
	}
	return out
}
