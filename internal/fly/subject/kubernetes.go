package subject

import (
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"
)

// clientModule is the module that says for which release of Kubernetes a program was made:
// its v0.33.3 belongs to Kubernetes v1.33.3.
const clientModule = "k8s.io/client-go"

// explainRelease adds to the error of a program that did not start, if it was made for
// another release of Kubernetes than the plane's, that this may be the reason, and what to do.
func explainRelease(err error, path, plane string) error {
	info, unread := buildinfo.ReadFile(path)
	if unread != nil { // it is no program of Go
		return err
	}
	if doubt := doubtRelease(releaseOf(info), plane); doubt != "" {
		return fmt.Errorf("%w\n%s", err, doubt)
	}
	return err
}

// releaseOf returns the release of Kubernetes whose client a program links, such as
// v1.33.3; empty: none, or one that is not a release.
func releaseOf(info *debug.BuildInfo) string {
	for _, m := range info.Deps {
		if m.Path != clientModule {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if rest, ok := strings.CutPrefix(m.Version, "v0."); ok && rest != "" && rest[0] != '0' {
			return "v1." + rest
		}
	}
	return ""
}

// doubtRelease says that a program was made for another minor release than the plane's;
// empty: it was not, or nobody knows.
func doubtRelease(made, plane string) string {
	minor := func(version string) string {
		parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
		if len(parts) < 2 {
			return ""
		}
		return parts[0] + "." + strings.TrimRight(parts[1], "+")
	}
	if made == "" || minor(plane) == "" || minor(made) == minor(plane) {
		return ""
	}
	return fmt.Sprintf("If its log names an API that is missing: it was made for Kubernetes %s (%s), and the plane is %s; set plane.release, or take another version of the program.", minor(made), clientModule, plane)
}
