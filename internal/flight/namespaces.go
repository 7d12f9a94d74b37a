package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/flight/steps"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/subject"
)

// namespaces are those of the scenario, and which of them this run has made: no
// others are deleted.
type namespaces struct {
	workload *steps.Workload // names them
	stamp    string          // of this run and no other
	ours     []bool          // which of them this run made
	doubtful []int           // of those that are not ours, the ones whose creation the server did not answer for
}

// markOfRun is the annotation by which a run knows its own namespaces, even one
// whose creation was never answered.
const markOfRun = "windtunnel.dev/run"

// namespaceRate is how many namespaces are made in a second.
const namespaceRate = 50

// create makes them and waits until pods can be made in them: the admission of
// pods wants the namespace's service account.
func (n *namespaces) create(ctx context.Context, generator *load.Generator, client *wire.Client) error {
	codes, err := n.post(ctx, generator)
	if err != nil {
		return err
	}
	for i, ours := range n.ours {
		if code := codes[i]; !ours && (code == 0 || code >= http.StatusInternalServerError) {
			n.doubtful = append(n.doubtful, i)
		}
	}
	for i, ours := range n.ours {
		name := n.workload.Namespace(i)
		switch {
		case codes[i] == http.StatusConflict:
			return fmt.Errorf("namespace %s: %w: it is left alone; name others with namespaces.prefix", name, ErrExists)
		case !ours:
			return fmt.Errorf("namespace %s could not be made: status %d", name, codes[i])
		}
		if err := awaitUsable(ctx, client, name); err != nil {
			return err
		}
	}
	return nil
}

// post sends their creations and returns the status of each.
func (n *namespaces) post(ctx context.Context, generator *load.Generator) (codes []int, err error) {
	count := n.workload.Scenario.Namespaces.Count
	n.ours, codes = make([]bool, count), make([]int, count)
	return codes, generator.Run(ctx, load.Plan{
		Ops:   []record.Op{{Source: load.Source, Step: "namespaces", Verb: "create", Resource: "namespaces", Scope: "resource"}},
		Count: count, Pace: pace.Constant(namespaceRate),
		Build: func(i int, req *load.Request) (bool, error) {
			req.Method, req.Path, req.ContentType = http.MethodPost, "/api/v1/namespaces", "application/json"
			req.Body = fmt.Appendf(req.Body, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s","annotations":{"%s":"%s"}}}`, n.workload.Namespace(i), markOfRun, n.stamp)
			return true, nil
		},
		// Each call has places of its own, and Run returns after the last.
		Done: func(answer load.Result) {
			n.ours[answer.Index], codes[answer.Index] = answer.Outcome == record.OK, answer.Response.Code
		},
	})
}

// usableEvery is how often a namespace is looked at that is not usable yet.
const usableEvery = 25 * time.Millisecond

// awaitUsable waits for a namespace's service account "default".
func awaitUsable(ctx context.Context, client *wire.Client, namespace string) error {
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/default"
	for {
		answer, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path})
		if err == nil && answer.Code == http.StatusOK {
			return nil
		}
		if err := clock.Sleep(ctx, usableEvery); err != nil {
			return fmt.Errorf("namespace %s did not become usable: %w", namespace, err)
		}
	}
}

// delete deletes those that this run made, and no others, and waits until they
// are gone, so that a next run does not begin among leftovers.
func (n *namespaces) delete(ctx context.Context, client *wire.Client, log *slog.Logger) {
	n.settleDoubtful(ctx, client, log)
	var paths []string
	for i, ours := range n.ours {
		if ours {
			paths = append(paths, "/api/v1/namespaces/"+n.workload.Namespace(i))
		}
	}
	if err := subject.Delete(ctx, client, paths); err != nil {
		log.Warn("namespaces were left behind", slog.Any("error", err))
	}
}

// settleDoubtful looks for namespaces that were made although the server's answer
// was lost, or said that it gave up: etcd may have written them all the same.
func (n *namespaces) settleDoubtful(ctx context.Context, client *wire.Client, log *slog.Logger) {
	for _, i := range n.doubtful {
		name := n.workload.Namespace(i)
		answer, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/" + name})
		var found metav1.PartialObjectMetadata
		if err == nil && answer.Code == http.StatusOK {
			err = json.Unmarshal(answer.Body, &found)
		} else if err == nil && answer.Code != http.StatusNotFound {
			err = fmt.Errorf("status %d", answer.Code)
		}
		if err != nil {
			log.Warn("a namespace may have been left behind", slog.String("namespace", name), slog.Any("error", err))
		}
		n.ours[i] = found.Annotations[markOfRun] == n.stamp
	}
}
