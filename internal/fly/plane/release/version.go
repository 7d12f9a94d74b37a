package release

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// version is a release such as v1.36.3.
type version struct{ major, minor, patch int }

var (
	wholeVersion = regexp.MustCompile(`^v(\d+)\.(\d+)\.(\d+)$`)
	minorVersion = regexp.MustCompile(`^v(\d+)\.(\d+)$`)
)

// parseVersion reads a version of three numbers; false: it is none, or a release before
// the release.
func parseVersion(text string) (v version, ok bool) {
	m := wholeVersion.FindStringSubmatch(text)
	if m == nil {
		return v, false
	}
	var errs [3]error
	v.major, errs[0] = strconv.Atoi(m[1])
	v.minor, errs[1] = strconv.Atoi(m[2])
	v.patch, errs[2] = strconv.Atoi(m[3])
	return v, errs == [3]error{}
}

func (v version) String() string { return fmt.Sprintf("v%d.%d.%d", v.major, v.minor, v.patch) }

// staging returns the version of the modules that are published together with a release
// of Kubernetes: v0.36.3 for v1.36.3.
func (v version) staging() string { return fmt.Sprintf("v0.%d.%d", v.minor, v.patch) }

// CheckNames returns what is wrong with the names of a release of Kubernetes and of etcd,
// either of which may be empty.
func CheckNames(kubernetes, etcd string) error {
	if v, ok := parseVersion(kubernetes); kubernetes != "" && (!ok || v.major != 1) {
		return fmt.Errorf("release %q: want the name of a release of Kubernetes, such as %s", kubernetes, Default)
	}
	if v, ok := parseVersion(etcd); etcd != "" && (!ok || v.major != 3) {
		return fmt.Errorf("etcd %q: want the name of a release of etcd, such as v3.6.12", etcd)
	}
	return nil
}

// etcdOf returns the release of etcd that kubeadm of each minor release of Kubernetes
// installs (https://github.com/kubernetes/kubernetes, cmd/kubeadm/app/constants).
func etcdOf() map[int]string {
	return map[int]string{
		30: "v3.5.21", 31: "v3.5.24", 32: "v3.5.24", 33: "v3.5.24",
		34: "v3.6.10", 35: "v3.6.10", 36: "v3.6.10", 37: "v3.7.0",
	}
}

// chooseEtcd returns the release of etcd for a release of Kubernetes: that of kubeadm, or the
// next patch of those that the module proxy has.
func chooseEtcd(kubernetes version, published []string) (string, error) {
	all, err := etcdsFor(kubernetes, published)
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// etcdsFor returns the releases of etcd that go with a release of Kubernetes, the best first:
// from that of kubeadm on. Kubernetes that is newer than the table gets the newest.
func etcdsFor(kubernetes version, published []string) (out []string, err error) {
	all := sortVersions(published)
	name, known := etcdOf()[kubernetes.minor]
	if !known && len(all) > 0 && kubernetes.minor > 37 {
		return []string{all[len(all)-1].String()}, nil
	}
	want, _ := parseVersion(name)
	for _, v := range all {
		if known && v.minor == want.minor && v.patch >= want.patch {
			out = append(out, v.String())
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, fmt.Errorf("no release of etcd is known for Kubernetes %v: name one with --etcd; the module proxy has %s", kubernetes, newest(all))
}

// sortVersions returns the releases among names of versions, oldest first.
func sortVersions(names []string) (out []version) {
	for _, name := range names {
		if v, ok := parseVersion(name); ok {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, compareVersions)
	return out
}

func compareVersions(a, b version) int {
	return slices.Compare([]int{a.major, a.minor, a.patch}, []int{b.major, b.minor, b.patch})
}

// unknown says that the module proxy does not have a release, and which ones it has: those
// of the same minor release, or else the newest.
func unknown(what string, v version, published []string) error {
	all := sortVersions(published)
	near := slices.DeleteFunc(slices.Clone(all), func(one version) bool { return one.major != v.major || one.minor != v.minor })
	if len(near) == 0 {
		near = all
	}
	return fmt.Errorf("%s %v: %w; name another one: it has %s", what, v, ErrUnknown, newest(near))
}

// newest lists the last few of sorted versions.
func newest(all []version) string {
	const few = 6
	var out []string
	for _, v := range all[max(0, len(all)-few):] {
		out = append(out, v.String())
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// patchesOf returns the releases of a minor release such as v1.34, newest first.
func patchesOf(minor string, published []string) ([]version, error) {
	m := minorVersion.FindStringSubmatch(minor)
	if m == nil {
		return nil, fmt.Errorf("%q: want a minor release of Kubernetes, such as v1.34", minor)
	}
	all := sortVersions(published)
	out := slices.DeleteFunc(slices.Clone(all), func(v version) bool { return strconv.Itoa(v.major) != m[1] || strconv.Itoa(v.minor) != m[2] })
	if len(out) == 0 {
		return nil, fmt.Errorf("the module proxy has no release %s.x of Kubernetes; its newest are %s", minor, newest(all))
	}
	slices.Reverse(out)
	return out, nil
}
