package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
)

// serveMetric answers with the metrics of a path.
func (s *Server) serveMetric(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(r.URL.Path, "/")
	m, node := s.findMetric(path)
	if m == nil && path == "metrics/resource" && s.options.Node != "" {
		m, node = s.findMetric("metrics/nodes/" + s.options.Node + "/metrics/resource") // kwok's path for it
	}
	if m != nil {
		s.answerMetric(w, r, m, node)
		return
	}
	if path == "metrics" && s.options.Metrics != nil {
		s.options.Metrics.ServeHTTP(w, r)
		return
	}
	http.Error(w, "no Metric object has this path", http.StatusNotFound)
}

// findMetric returns the metric of a path and the node that it is about.
func (s *Server) findMetric(path string) (*metric, string) {
	segments := strings.Split(path, "/")
	for _, m := range s.rules.Load().metrics {
		if node, ok := m.matchPath(segments); ok {
			return m, node
		}
	}
	return nil, ""
}

func (s *Server) answerMetric(w http.ResponseWriter, r *http.Request, m *metric, node string) {
	if s.options.World == nil {
		http.Error(w, "there is nothing to measure: the server was started without nodes", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	text, err := s.scrapeNode(ctx, m, node)
	switch {
	case errors.Is(err, ErrNotFound):
		s.totals.forgetNode(node)
		http.Error(w, "there is no node "+node, http.StatusNotFound)
	case err != nil:
		s.writeError(w, err)
	default:
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text) // nobody is left to be told of an error
	}
}

// serveDiscovery answers with what there is to scrape, in the form of Prometheus'
// HTTP service discovery.
func (s *Server) serveDiscovery(w http.ResponseWriter, r *http.Request) {
	type target struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	targets := []target{}
	add := func(name, path string) {
		targets = append(targets, target{[]string{r.Host}, map[string]string{"metrics_name": name, "__scheme__": scheme, "__metrics_path__": path}})
	}
	var nodes []string
	if world, ok := s.options.World.(lister); ok {
		nodes = world.Nodes()
		slices.Sort(nodes)
	}
	for _, m := range s.rules.Load().metrics {
		path := "/" + strings.Join(m.segments, "/")
		if !strings.Contains(path, configuration.NodeName) {
			add(m.name, path)
			continue
		}
		for _, node := range nodes {
			add(m.name, strings.Replace(path, configuration.NodeName, node, 1))
		}
	}
	s.answerJSON(w, targets)
}

func (s *Server) answerJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		s.writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // nobody is left to be told of an error
}

// servePods answers with the pods of a node: the one of the query, or the one that
// the server stands for.
func (s *Server) servePods(w http.ResponseWriter, r *http.Request) {
	node := r.URL.Query().Get("nodeName")
	if node == "" {
		node = s.options.Node
	}
	world, ok := s.options.World.(podLister)
	switch {
	case !ok:
		http.Error(w, "the server was started without pods", http.StatusServiceUnavailable)
		return
	case node == "":
		http.Error(w, "this server stands for many nodes: name one, as in /pods?nodeName=NAME", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	list, err := world.PodList(ctx, node)
	if err != nil {
		s.writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(list) // nobody is left to be told of an error
}
