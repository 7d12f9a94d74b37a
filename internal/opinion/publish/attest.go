package publish

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/opinion/publish/archive"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/seal"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Statements of those who flew a bundle again stand beside it: they are about its Merkle
// root, and no part of it. Each is an envelope in in-toto's form of test results.

// reproductionFile is the name of such a statement.
var reproductionFile = regexp.MustCompile(`^reproductions/[1-9][0-9]{0,2}\.dsse\.json$`)

const reproducedSubject = "windtunnel bundle, Merkle root, flown again"

// statement says of the bundle what a second flight gave: claims that agree have passed,
// those that differ have failed, and of the rest it cannot be told.
func (p *Published) statement(r *Reproduction) seal.Statement {
	s := seal.Statement{
		Type: seal.StatementType, Subject: []seal.Descriptor{seal.SHA256(reproducedSubject, p.root[:])}, PredicateType: seal.PredicateType,
		Predicate: seal.TestResult{Result: map[string]string{Agrees: "PASSED", Differs: "FAILED", CannotTell: "WARNED"}[r.State], Configuration: []seal.Descriptor{}},
	}
	to := map[string]*[]string{Agrees: &s.Predicate.PassedTests, Differs: &s.Predicate.FailedTests, CannotTell: &s.Predicate.WarnedTests}
	for _, c := range r.Claims {
		*to[c.State] = append(*to[c.State], c.Says)
	}
	return s
}

// AddReproduction writes the bundle at path to w with a signed statement of what a second
// flight gave. What was in it stays as it is.
func (p *Published) AddReproduction(w io.Writer, path string, r *Reproduction, key ssh.Signer) error {
	statement, err := p.statement(r).Encode()
	if err != nil {
		return err
	}
	envelope, err := seal.Sign(statement, key)
	if err != nil {
		return err
	}
	a, err := archive.Open(path)
	if err != nil {
		return err
	}
	defer a.Close()
	names := slices.Sorted(maps.Keys(a.Digests()))
	added := ""
	for n := 1; added == ""; n++ {
		name := fmt.Sprintf("reproductions/%d.dsse.json", n)
		switch {
		case !reproductionFile.MatchString(name):
			return fmt.Errorf("%w: the bundle has %s", ErrReproduce, unit.Count(n-1, "reproductions"))
		case !slices.Contains(names, name):
			added = name
		}
	}
	names = append(names, added)
	slices.Sort(names)
	return archive.Write(w, names, func(name string) (io.ReadSeekCloser, error) {
		content := envelope
		if name != added {
			if content, err = a.Read(name); err != nil {
				return nil, err
			}
		}
		return openBytes{bytes.NewReader(content)}, nil
	})
}

type openBytes struct{ *bytes.Reader }

func (openBytes) Close() error { return nil }

// checkReproductions checks the statements of those who flew the bundle again. Whose key
// is not trusted counts for nothing, and takes nothing away.
func (v *verifier) checkReproductions() {
	root := archive.Root(v.sums())
	for _, name := range slices.Sorted(maps.Keys(v.archive.Digests())) {
		if !reproductionFile.MatchString(name) {
			continue
		}
		s, key, err := v.openReproduction(name)
		switch {
		case err != nil:
			v.add("reproduced", Fails, fmt.Sprintf("%s: %v", name, err))
			continue
		case len(s.Subject) != 1 || s.Subject[0].Name != reproducedSubject || s.Subject[0].Digest["sha256"] != fmt.Sprintf("%x", root):
			v.add("reproduced", Fails, name+" is about another bundle")
			continue
		}
		agree, differ, open := len(s.Predicate.PassedTests), len(s.Predicate.FailedTests), len(s.Predicate.WarnedTests)
		why := fmt.Sprintf("flown again by %s: %s", key, unit.Count(agree, "claims")+" "+unit.Verb(agree, "agrees", "agree"))
		if differ > 0 {
			why += fmt.Sprintf(", %d %s: %s", differ, unit.Verb(differ, "differs", "differ"), strings.Join(s.Predicate.FailedTests, "; "))
		}
		if open > 0 {
			why += fmt.Sprintf(", of %d it cannot be told", open)
		}
		switch {
		case key == v.out.Signer:
			why += "; by the author's own key"
		case !slices.Contains(v.signers, key):
			why += "; no key that you trust"
		case differ == 0 && open == 0 && agree > 0 && v.out.Results != nil && v.out.Results.Level == LevelPublishable:
			v.out.Reproduced = append(v.out.Reproduced, key)
		}
		v.add("reproduced", Holds, why)
	}
}

// openReproduction reads a statement and the fingerprint of who signed it.
func (v *verifier) openReproduction(name string) (s seal.Statement, key string, err error) {
	raw, err := v.archive.Read(name)
	if err != nil {
		return s, "", err
	}
	statement, by, err := seal.Open(raw)
	if err != nil {
		return s, "", err
	}
	s, err = seal.Decode(statement)
	return s, ssh.FingerprintSHA256(by), err
}
