package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/template/protobuf"
)

// payload is the value of each ConfigMap's one key.
const payload = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

// runWindtunnel creates the objects with package load.
func runWindtunnel(j job) (r Result, err error) {
	ep, err := endpoint.FromKubeconfig(j.kubeconfig, "")
	if err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "windtunnel-bench-")
	if err != nil {
		return r, fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, record.StreamFile)
	records, err := record.Create(path)
	if err != nil {
		return r, err
	}
	c := clock.Start()
	o := load.Options{Endpoint: ep, Records: records, Clock: c}
	if j.rate == 0 { // as the peer does it
		o.Connections, o.Most, o.InFlight = 1, 1, j.workers
	}
	g, err := load.New(o)
	if err != nil {
		return r, err
	}
	defer g.Close()
	if err := createNamespace(ep, j.namespace); err != nil {
		return r, err
	}
	json, err := template.Compile("bench", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{.Name}}\", namespace: \"{{.Namespace}}\"}\ndata: {key: \""+payload+"\"}\n", 1, template.Windtunnel())
	if err != nil {
		return r, err
	}
	body := protobuf.New(json)
	process.Prefer() // as `windtunnel run` does
	p := pace.Burst()
	if j.rate > 0 {
		p = pace.Constant(j.rate)
	}
	ctx, cancel := context.Background(), func() {}
	if j.stop > 0 {
		ctx, cancel = context.WithTimeout(ctx, j.stop)
	}
	defer cancel()
	begin := c.Now()
	err = g.Run(ctx, load.Plan{
		Ops: []record.Op{{Source: load.Source, Step: "bench", Verb: "create", Resource: "configmaps", Scope: "resource"}}, Count: j.objects, Pace: p,
		Build: func(i int, req *load.Request) (bool, error) {
			v := template.Vars{Name: fmt.Sprintf("object-%d", i), Namespace: j.namespace, Index: i}
			req.Method, req.Path, req.Accept = http.MethodPost, "/api/v1/namespaces/"+j.namespace+"/configmaps", "application/vnd.kubernetes.protobuf"
			var err error
			if j.json {
				req.Accept, req.ContentType = load.JSON, load.JSON
				req.Body, err = json.Render(req.Body, v)
			} else {
				req.Body, req.ContentType, err = body.Render(req.Body, v)
			}
			return true, err
		},
	})
	if err != nil && (j.stop == 0 || !errors.Is(err, context.DeadlineExceeded)) {
		return r, err
	}
	r.Seconds, r.Objects = c.Now().Sub(begin).Seconds(), g.Progress().Ended
	if err := records.Close(); err != nil {
		return r, err
	}
	return r, readLateness(path, &r)
}

// readLateness reads how late the calls left.
func readLateness(path string, r *Result) error {
	var late []time.Duration
	_, err := record.Read(path, func(*record.Stream) record.Visitor {
		return record.Visitor{Call: func(c record.Call) {
			late = append(late, c.Lateness())
			if c.Outcome != record.OK {
				r.Failed++
			}
		}}
	})
	if err != nil || len(late) == 0 {
		return err
	}
	slices.Sort(late)
	r.LateP999 = late[min(len(late)-1, int(math.Ceil(0.999*float64(len(late)))))].Seconds()
	n, _ := slices.BinarySearch(late, 5*time.Millisecond)
	r.WithinFiveMs = float64(n) / float64(len(late))
	return nil
}

func createNamespace(ep endpoint.Endpoint, name string) error {
	set, err := kubernetes.NewForConfig(ep.Config("bench"))
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	_, err = set.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make namespace: %w", err)
	}
	return nil
}

// clientGo creates the objects with the typed client, protobuf, and workers.
func clientGo(j job) (r Result, err error) {
	ep, err := endpoint.FromKubeconfig(j.kubeconfig, "")
	if err != nil {
		return r, err
	}
	if err := createNamespace(ep, j.namespace); err != nil {
		return r, err
	}
	config := ep.Config("bench-client-go")
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return r, fmt.Errorf("client: %w", err)
	}
	set, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return r, fmt.Errorf("client: %w", err)
	}
	work := make(chan int)
	var wait sync.WaitGroup
	var mu sync.Mutex
	c := clock.Start()
	for range j.workers {
		wait.Go(func() {
			for i := range work {
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%d", i)}, Data: map[string]string{"key": payload}}
				if _, err := set.CoreV1().ConfigMaps(j.namespace).Create(context.Background(), m, metav1.CreateOptions{}); err != nil && !strings.Contains(err.Error(), "exists") {
					mu.Lock()
					r.Failed++
					mu.Unlock()
				}
			}
		})
	}
	for i := range j.objects {
		work <- i
	}
	close(work)
	wait.Wait()
	r.Seconds = c.Now().Seconds()
	return r, nil
}
