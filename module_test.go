package windtunnel_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// self is this tree as a version that a module proxy serves. The version is always the
// same, so that the build cache has what did not change since the test ran last.
var self = module.Version{Path: "github.com/windtunnel/windtunnel", Version: "v0.0.0-test"}

const userTest = `package user

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestHollow(t *testing.T) {
	c := windtunnel.Hollow(t, windtunnel.HollowOptions{Nodes: 3, Binder: true, Stages: []string{"fast"}})
	pods := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	watch, err := pods.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	phase := corev1.PodPending
	for event := range watch.ResultChan() {
		if p, ok := event.Object.(*corev1.Pod); ok {
			phase = p.Status.Phase
		}
		if phase == corev1.PodRunning {
			break
		}
	}
	if phase != corev1.PodRunning {
		t.Errorf("the pod is %s", phase)
	}
	if s := scenario.Default(); s.Validate() == nil {
		t.Error("a scenario without steps is valid")
	}
}
`

// TestModuleIsImported imports this tree into a module of somebody else, as a module
// proxy serves it: without the files and the replace directives of the checkout.
func TestModuleIsImported(t *testing.T) {
	u := newUser(t)
	u.writeFile("user_test.go", userTest)
	u.runGo("mod", "init", "example.org/user")
	u.runGo("mod", "edit", "-require="+self.String())
	u.runGo("mod", "tidy")
	u.runGo("vet", "./...")
	if said := u.runGo("test", "-v", "-count=1", "./..."); !strings.Contains(said, "--- PASS: TestHollow") {
		t.Errorf("the test did not run:\n%s", said)
	}
	mod, err := os.ReadFile(filepath.Join(u.dir, "go.mod"))
	if err != nil || bytes.Contains(mod, []byte("k8s.io/kubernetes")) || bytes.Contains(mod, []byte("replace")) {
		t.Errorf("go.mod links the control plane, or replaces modules (%v):\n%s", err, mod)
	}
}

// TestCommandIsInstalled installs the program as `go install MODULE@VERSION` does.
func TestCommandIsInstalled(t *testing.T) {
	u := newUser(t)
	u.runGo("install", self.Path+"/cmd/windtunnel@"+self.Version)
	said := u.run(filepath.Join(u.dir, "bin", "windtunnel"), "version")
	if !strings.Contains(said, "windtunnel ") {
		t.Errorf("it says %s", said)
	}
}

// user is a folder of somebody who uses the module, with a go command that gets it
// from a module proxy of files, and everything else from the usual one.
type user struct {
	t   *testing.T
	dir string
	env []string
}

func newUser(t *testing.T) user {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles the module once more, as a dependency")
	}
	out := repotest.Must(exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output())(t)
	cache, proxy, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	useModuleCache(t, cache)
	u := user{t: t, dir: t.TempDir()}
	// Without its index the go command looks into the folder of the module: it believes
	// that of one version never to change.
	u.env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GODEBUG=goindex=0", "GOPROXY=file://"+serveModule(t)+","+proxy, "GONOPROXY=none", "GONOSUMDB="+self.Path, "GOBIN="+filepath.Join(u.dir, "bin"))
	return u
}

// useModuleCache takes what an earlier tree left of the version out of the machine's
// module cache, before the test and after it, and keeps other checkouts from testing
// meanwhile. A module cache of the test's own would have other paths, and the build
// cache would know none of the dependencies.
func useModuleCache(t *testing.T, cache string) {
	t.Helper()
	versions := filepath.Join(cache, "cache", "download", filepath.FromSlash(self.Path), "@v")
	repotest.NoError(t, os.MkdirAll(versions, 0o755))
	lock := repotest.Must(os.Open(versions))(t)
	repotest.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	clean := func() error {
		kept, err := filepath.Glob(filepath.Join(versions, self.Version+".*"))
		for _, path := range append(kept, filepath.Join(versions, "list"), filepath.Join(cache, filepath.FromSlash(self.String()))) {
			err = errors.Join(err, removeReadOnly(path))
		}
		return err
	}
	repotest.NoError(t, clean())
	t.Cleanup(func() {
		if err := errors.Join(clean(), lock.Close()); err != nil {
			t.Error(err)
		}
	})
}

// removeReadOnly removes a tree whose folders may be read-only, as those of a module
// cache are.
func removeReadOnly(path string) error {
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(at, 0o700)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.RemoveAll(path))
}

// serveModule makes a module proxy of files that serves this tree, and returns its folder.
func serveModule(t *testing.T) string {
	t.Helper()
	root := repotest.Root(t)
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Skipf("no checkout of git: %v", err)
	}
	var files []modzip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		f := treeFile{root, name}
		if _, err := f.Lstat(); err == nil { // one that was deleted is still in the index
			files = append(files, f)
		}
	}
	var zip bytes.Buffer
	repotest.NoError(t, modzip.Create(&zip, self, files))
	mod := repotest.Must(os.ReadFile(filepath.Join(root, "go.mod")))(t)
	proxy := t.TempDir()
	at := filepath.Join(proxy, filepath.FromSlash(self.Path), "@v")
	repotest.NoError(t, os.MkdirAll(at, 0o755))
	info := fmt.Sprintf(`{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, self.Version)
	served := map[string][]byte{"list": []byte(self.Version + "\n"), self.Version + ".info": []byte(info), self.Version + ".mod": mod, self.Version + ".zip": zip.Bytes()}
	for name, text := range served {
		repotest.NoError(t, os.WriteFile(filepath.Join(at, name), text, 0o600))
	}
	return proxy
}

// treeFile is a file of the checkout.
type treeFile struct{ root, name string }

func (f treeFile) Path() string                 { return f.name }
func (f treeFile) Lstat() (os.FileInfo, error)  { return os.Lstat(f.path()) }
func (f treeFile) Open() (io.ReadCloser, error) { return os.Open(f.path()) }
func (f treeFile) path() string                 { return filepath.Join(f.root, filepath.FromSlash(f.name)) }

func (u user) writeFile(name, text string) {
	u.t.Helper()
	repotest.NoError(u.t, os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600))
}

func (u user) runGo(args ...string) string {
	u.t.Helper()
	return u.run("go", args...)
}

// run runs a program in the user's folder and returns what it says.
func (u user) run(program string, args ...string) string {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), program, args...)
	cmd.Dir, cmd.Env = u.dir, u.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}
