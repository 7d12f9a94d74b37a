package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
)

// manager is the field manager of the registrations.
const manager = "windtunnel-app-gateway"

// serviceHost is the Service's name in certificates.
const serviceHost = cluster.Service + "." + api.SystemNamespace

// availableWithin is how long the hub may take to find the gateway.
const availableWithin = time.Minute

// errElsewhere says that the hub would look for the gateway on its own machine.
var errElsewhere = errors.New("the API server is on another machine, which does not reach a loopback address here: give --gateway-listen another, or --aggregated=false")

// registration is what a replica has said of itself at the hub. The zero value is
// nothing.
type registration struct {
	hub        dynamic.Interface
	key        string // in the list of replicas
	port       int64
	aggregated bool
}

func serviceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "services"}
}

func configMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

func apiServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
}

// apiService is the name of the group's registration.
const apiService = cluster.Version + "." + cluster.Group

// registerReplica puts the replica on the list of replicas, and with Aggregate lets the
// hub's API server proxy the group to it: to the last one that registered, for a
// loopback address has no Service that would choose between several.
func (s *Server) registerReplica(ctx context.Context, config *rest.Config) (r registration, err error) {
	if r.hub, err = dynamic.NewForConfig(config); err != nil {
		return r, fmt.Errorf("app-gateway: %w", err)
	}
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return r, fmt.Errorf("app-gateway: %w", err)
	}
	if r.port, err = strconv.ParseInt(port, 10, 32); err != nil {
		return r, fmt.Errorf("app-gateway: port %s: %w", port, err)
	}
	if err := r.addReplica(ctx, s.address, s.authority); err != nil {
		return r, fmt.Errorf("app-gateway: %w", err)
	}
	if !s.o.Aggregate {
		return r, nil
	}
	if isLoopback(host) {
		if u, err := url.Parse(config.Host); err == nil && !isLoopback(u.Hostname()) {
			return r, fmt.Errorf("app-gateway: %s: %w", config.Host, errElsewhere)
		}
		host = "localhost" // a Service's name for another place is none of an address
	}
	if err := r.registerGroup(ctx, host, s.authority); err != nil {
		return r, fmt.Errorf("app-gateway: %w", err)
	}
	return r, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// addReplica writes down where the replica is.
func (r *registration) addReplica(ctx context.Context, address string, ca []byte) error {
	raw, err := json.Marshal(cluster.Replica{Address: address, CA: string(ca)})
	if err != nil {
		return err
	}
	r.key = strings.NewReplacer(":", ".", "[", "", "]", "").Replace(address)
	if err := api.MakeNamespace(ctx, r.hub); err != nil {
		return err
	}
	list := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": cluster.Service, "namespace": api.SystemNamespace}, "data": map[string]any{r.key: string(raw)},
	}}
	maps := r.hub.Resource(configMaps()).Namespace(api.SystemNamespace)
	if _, err := maps.Create(ctx, list, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return err
	}
	body, err := json.Marshal(map[string]any{"data": map[string]any{r.key: string(raw)}})
	if err != nil {
		return err
	}
	if _, err := maps.Patch(ctx, cluster.Service, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("list of replicas: %w", err)
	}
	return nil
}

// registerGroup registers the group and waits until the hub serves it.
func (r *registration) registerGroup(ctx context.Context, host string, ca []byte) error {
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": cluster.Service, "namespace": api.SystemNamespace},
		"spec": map[string]any{"type": "ExternalName", "externalName": host},
	}}
	if err := install.Apply(ctx, r.hub.Resource(serviceResource()).Namespace(api.SystemNamespace), service, manager); err != nil {
		return err
	}
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": apiService},
		"spec": map[string]any{
			"group": cluster.Group, "version": cluster.Version, "groupPriorityMinimum": int64(2000), "versionPriority": int64(10),
			"caBundle": base64.StdEncoding.EncodeToString(ca),
			"service":  map[string]any{"namespace": api.SystemNamespace, "name": cluster.Service, "port": r.port},
		},
	}}
	if err := install.Apply(ctx, r.hub.Resource(apiServices()), group, manager); err != nil {
		return err
	}
	r.aggregated = true
	return r.awaitAvailable(ctx)
}

// awaitAvailable waits until the hub has found the gateway.
func (r *registration) awaitAvailable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, availableWithin)
	defer cancel()
	last := "it has said nothing"
	for {
		o, err := r.hub.Resource(apiServices()).Get(ctx, apiService, metav1.GetOptions{})
		if err == nil {
			for _, c := range conditionsOf(o) {
				if c["type"] == "Available" && c["status"] == "True" {
					return nil
				}
				last = fmt.Sprintf("%v: %v", c["reason"], c["message"])
			}
		}
		if clock.Sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("the hub does not reach the gateway as APIService %s: %s", apiService, last)
		}
	}
}

func conditionsOf(o *unstructured.Unstructured) (out []map[string]any) {
	all, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return nil
	}
	for _, c := range all {
		if m, ok := c.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// withdrawReplica takes the registrations back, within five seconds: the hub itself may be
// on its way out. Those that a later replica has made its own stay.
func (r registration) withdrawReplica() error {
	if r.key == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	body, err := json.Marshal(map[string]any{"data": map[string]any{r.key: nil}})
	if err != nil {
		return err
	}
	_, err = r.hub.Resource(configMaps()).Namespace(api.SystemNamespace).Patch(ctx, cluster.Service, types.MergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	if !r.aggregated {
		return err
	}
	o, gone := r.hub.Resource(apiServices()).Get(ctx, apiService, metav1.GetOptions{})
	if apierrors.IsNotFound(gone) {
		return err
	}
	if gone != nil {
		return errors.Join(err, gone)
	}
	if port, _, _ := unstructured.NestedInt64(o.Object, "spec", "service", "port"); port != r.port {
		return err
	}
	uid := o.GetUID()
	late := r.hub.Resource(apiServices()).Delete(ctx, apiService, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(late) {
		late = nil
	}
	return errors.Join(err, late)
}
