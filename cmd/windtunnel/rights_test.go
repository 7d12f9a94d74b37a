package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/repotest/census"
)

// fewRights makes ConfigMaps in a namespace that is there.
const fewRights = `scenario: few-rights
preflight: {wait: 1s, tolerate: [leftover, terminating, queue, retries, cpu, heap, store, probe-write, host, unread]}
namespaces: {count: 0}
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Name }}'}, data: {a: '1'}}"}
  patch: {text: "{data: {a: '2'}}"}
steps:
- {name: fill, create: {body: map, namespace: guests, count: 20, pace: {constant: 100}}}
- {name: change, update: {step: fill, body: patch, method: merge, pace: {constant: 100}}}
- {name: look, requests: {count: 10, pace: {burst: true}, mix: [{verb: list, resource: configmaps, namespace: guests}]}}
`

// TestLeastRights flies with exactly the rights that --print-rbac writes, and with one less.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	u.write(map[string]string{"few.yaml": fewRights})
	roles := repotest.Must(exec.Command(u.bin, "run", filepath.Join(u.dir, "few.yaml"), "--print-rbac").Output())(t)
	config, endUp := u.up("--nodes", "1")
	defer endUp()
	guest := bindRoles(t, config, string(roles), u.dir)
	before := repotest.Must(census.Take(t.Context(), config))(t)
	cmd, said := u.start("run", "few.yaml", "--kubeconfig", guest, "--out", "run-few", "--max-neighbours", "95%")
	if code := exitOf(cmd.Wait()); code != exitPass && code != exitUnknown || strings.Contains(said.String(), "left behind") || strings.Contains(said.String(), "forbidden") {
		t.Errorf("with the rights that it needs: exit code %d\n%s", code, said)
	}
	now := repotest.Must(census.Take(t.Context(), config))(t)
	if differences := before.Differences(now); len(differences) > 0 {
		t.Errorf("after it:\n%s", strings.Join(differences, "\n"))
	}
	less := strings.ReplaceAll(fewRights, "count: 0", "count: 1")
	u.write(map[string]string{"more.yaml": less})
	cmd, said = u.start("run", "more.yaml", "--kubeconfig", guest, "--out", "run-more")
	want := "its user may not create namespaces; delete namespaces; get namespaces, serviceaccounts; list namespaces: run FILE --print-rbac writes the roles"
	if code := exitOf(cmd.Wait()); code == exitPass || !strings.Contains(said.String(), want) {
		t.Errorf("without the rights that it needs: exit code %d, want %q\n%s", code, want, said)
	}
}

// bindRoles gives a service account the roles, and returns its kubeconfig.
func bindRoles(t *testing.T, config, roles, dir string) (kubeconfig string) {
	t.Helper()
	e := repotest.Must(endpoint.FromKubeconfig(config, ""))(t)
	client := repotest.Must(kubernetes.NewForConfig(e.Config("test")))(t)
	ctx := context.Background()
	made := func(_ any, err error) {
		t.Helper()
		repotest.NoError(t, err)
	}
	var create metav1.CreateOptions
	made(client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "guests"}}, create))
	made(client.CoreV1().ServiceAccounts("guests").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "guest"}}, create))
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "guest", Namespace: "guests"}}
	for _, document := range strings.Split(roles, "\n---\n")[1:] {
		var role rbacv1.Role
		if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.Kind, Name: role.Name}
		if role.Kind == "ClusterRole" {
			made(client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: role.ObjectMeta, Rules: role.Rules}, create))
			made(client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: ref, Subjects: subjects}, create))
			continue
		}
		made(client.RbacV1().Roles(role.Namespace).Create(ctx, &role, create))
		made(client.RbacV1().RoleBindings(role.Namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: ref, Subjects: subjects}, create))
	}
	token := repotest.Must(client.CoreV1().ServiceAccounts("guests").CreateToken(ctx, "guest", &authenticationv1.TokenRequest{}, create))(t)
	kubeconfig = filepath.Join(dir, "guest.kubeconfig")
	repotest.NoError(t, e.As(token.Status.Token).WriteKubeconfig(kubeconfig))
	return kubeconfig
}
