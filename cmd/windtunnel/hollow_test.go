package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestHollowKeepsWhatWasSaved serves clusters twice: what was saved of the first
// is there the second time.
func TestHollowKeepsWhatWasSaved(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "state.yaml")
	withHollow(t, []string{"--clusters", "2", "--shared", "--save", saved}, func(client func(name string) kubernetes.Interface) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Status: corev1.NodeStatus{Phase: corev1.NodeRunning}}
		if _, err := client("hollow-1").CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if list, err := client("hollow-2").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("the other cluster: %v, %v", list, err)
		}
	})
	withHollow(t, []string{"--load", saved}, func(client func(name string) kubernetes.Interface) {
		n, err := client("hollow-1").CoreV1().Nodes().Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil || n.Status.Phase != corev1.NodeRunning {
			t.Errorf("%v, %v", n, err)
		}
	})
}

// What was saved before stays whole until all is written anew: who has the file open
// reads it to its end. The new file is the user's alone, and a link stays a link.
func TestHollowReplacesWhatWasSaved(t *testing.T) {
	dir := t.TempDir()
	saved, link := filepath.Join(dir, "state.yaml"), filepath.Join(dir, "link.yaml")
	repotest.NoError(t, errors.Join(os.WriteFile(saved, []byte("---\n# before"), 0o644), os.Symlink("state.yaml", link)))
	before := repotest.Must(os.Open(saved))(t)
	defer before.Close()
	withHollow(t, []string{"--shared", "--save", link}, func(func(string) kubernetes.Interface) {})
	if raw, err := io.ReadAll(before); err != nil || string(raw) != "---\n# before" {
		t.Errorf("what was there before reads %q, %v", raw, err)
	}
	info, err := os.Lstat(saved)
	if err != nil || info.Mode() != 0o600 || info.Size() < 100 {
		t.Errorf("%v, %v", info, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "state.yaml" {
		t.Errorf("%q, %v", to, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestHollowHistoryBytes replaces more bytes than the history may keep.
func TestHollowHistoryBytes(t *testing.T) {
	withHollow(t, []string{"--shared", "--history-bytes", "10Ki"}, func(client func(name string) kubernetes.Interface) {
		maps := client("hollow-1").CoreV1().ConfigMaps("default")
		m, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
		repotest.NoError(t, err)
		first := metav1.ListOptions{ResourceVersion: m.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		for i := range 5 {
			if i == 3 { // 6,000 bytes
				if _, err := maps.List(t.Context(), first); err != nil {
					t.Errorf("a list of the past: %v", err)
				}
			}
			m.Data = map[string]string{strconv.Itoa(i): strings.Repeat("x", 3000)}
			if m, err = maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := maps.List(t.Context(), first); !apierrors.IsResourceExpired(err) {
			t.Errorf("a list of before the history: %v", err)
		}
	})
}

// withHollow calls do while the verb serves.
func withHollow(t *testing.T, args []string, do func(client func(name string) kubernetes.Interface)) {
	t.Helper()
	out, in := io.Pipe()
	signals, ended := make(chan os.Signal, 1), make(chan int, 1)
	var stderr bytes.Buffer
	env := &environment{stdout: in, stderr: &stderr, listen: func() <-chan os.Signal { return signals }}
	go func() {
		code := executeVerb(context.WithoutCancel(t.Context()), env, append([]string{"hollow"}, args...))
		in.Close()
		ended <- code
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	path, ok := strings.CutPrefix(strings.TrimSpace(line), "export KUBECONFIG=")
	if err != nil || !ok {
		t.Fatalf("%q, %v, code %d", line, err, <-ended)
	}
	do(func(name string) kubernetes.Interface {
		config := repotest.Must(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path},
			&clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig())(t)
		return kubernetes.NewForConfigOrDie(config)
	})
	signals <- os.Interrupt
	if code := <-ended; code != exitPass {
		t.Errorf("it ended with %d: %s", code, &stderr)
	}
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is left", path)
	}
}
