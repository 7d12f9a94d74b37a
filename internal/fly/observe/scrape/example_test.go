package scrape_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/observe/scrape"
	"github.com/windtunnel/windtunnel/internal/record"
)

// A component's metrics become samples of the record stream.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `workqueue_depth{name="deployment"} 7`)
		fmt.Fprintln(w, `go_info{version="go1.26"} 1`) // not asked for
	}))
	defer server.Close()
	folder, err := os.MkdirTemp("", "windtunnel")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, record.StreamFile)
	w, err := record.Create(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	targets := []scrape.Target{{Name: "kube-controller-manager", URL: server.URL, Client: server.Client()}}
	scrape.New(w, clock.Start(), targets, scrape.Options{Keep: []string{"workqueue_*"}}).Scrape(context.Background())
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}
	_, err = record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{Sample: func(v record.Sample) {
			fmt.Println(s.Series[v.Series].Key(), v.Value)
		}}
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: workqueue_depth{target="kube-controller-manager",name="deployment"} 7
}
