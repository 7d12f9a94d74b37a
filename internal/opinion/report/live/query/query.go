// Package query serves the Prometheus HTTP query API over a run, so that
// Grafana, promtool and whatever else speaks it can be pointed at one:
// /api/v1/query, query_range, series, labels, label/NAME/values, metadata, and
// the status that clients ask for first. See
// https://prometheus.io/docs/prometheus/latest/querying/api/.
//
// It listens nowhere, keeps nothing and changes nothing; the verb serve and
// package live put its handler behind an address.
package query

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
)

// Defaults of Options. MaxPoints is Prometheus' own.
const (
	DefaultMaxPoints  = 11_000
	DefaultConcurrent = 4
)

// maxForm is how many bytes a posted form may have.
const maxForm = 1 << 20

// Options configure a handler.
type Options struct {
	MaxPoints  int    // steps from the begin of a range to its end; default DefaultMaxPoints
	Concurrent int    // queries at a time, others wait; default DefaultConcurrent
	Version    string // windtunnel's, told as the build's revision
}

// New returns the handler of the API over db. How long a query may take and how
// much it may hold is for db to say.
func New(db *promql.DB, o Options) http.Handler {
	if o.MaxPoints <= 0 {
		o.MaxPoints = DefaultMaxPoints
	}
	if o.Concurrent <= 0 {
		o.Concurrent = DefaultConcurrent
	}
	a := &api{db: db, options: o, turns: make(chan struct{}, o.Concurrent)}
	mux := http.NewServeMux()
	for path, serve := range map[string]func(*http.Request) (answer, error){
		"query":               a.serveInstant,
		"query_range":         a.serveRange,
		"series":              a.serveSeries,
		"labels":              a.serveLabels,
		"label/{name}/values": a.serveValues,
		"metadata":            a.serveMetadata,
		"rules":               func(*http.Request) (answer, error) { return answer{data: map[string]any{"groups": []any{}}}, nil },
		"query_exemplars":     func(*http.Request) (answer, error) { return answer{data: []any{}}, nil },
		"status/buildinfo":    a.serveBuildInfo,
		"status/runtimeinfo":  a.serveRuntimeInfo,
	} {
		handler := writeResponse(serve)
		mux.Handle("GET /api/v1/"+path, handler)
		mux.Handle("POST /api/v1/"+path, handler)
	}
	return mux
}

type api struct {
	db      *promql.DB
	options Options
	turns   chan struct{}
}

// answer is what is said of a request that could be answered.
type answer struct {
	data            any
	warnings, infos []string
}

// fault is an error with the name that the API has for its kind.
type fault struct {
	kind   string
	status int
	err    error
}

func (f *fault) Error() string { return f.err.Error() }

func badData(err error) error { return &fault{"bad_data", http.StatusBadRequest, err} }

// statusGone is what servers log where a client did not wait.
const statusGone = 499

// faultOf gives an error of the database its name.
func faultOf(err error) *fault {
	var known *fault
	var expr *promql.ExprError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &expr):
		return &fault{"bad_data", http.StatusBadRequest, err}
	case errors.Is(err, promql.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return &fault{"timeout", http.StatusServiceUnavailable, err}
	case errors.Is(err, promql.ErrCanceled), errors.Is(err, context.Canceled):
		return &fault{"canceled", statusGone, err}
	}
	return &fault{"execution", http.StatusUnprocessableEntity, err}
}

func writeResponse(serve func(*http.Request) (answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		var a answer
		err := r.ParseForm()
		if err != nil {
			err = badData(fmt.Errorf("read the form: %w", err))
		} else {
			a, err = serve(r)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			f := faultOf(err)
			w.WriteHeader(f.status)
			_, _ = w.Write(encodeFault(f))
			return
		}
		_, _ = w.Write(encodeAnswer(a))
	})
}

// awaitTurn waits until a query may run; done ends it.
func (a *api) awaitTurn(ctx context.Context) (done func(), err error) {
	select {
	case a.turns <- struct{}{}:
		return func() { <-a.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// evaluateQuery runs one query within the time that its request allows.
func (a *api) evaluateQuery(r *http.Request, ask func(ctx context.Context) (promql.Result, error)) (answer, error) {
	ctx := r.Context()
	if text := r.FormValue("timeout"); text != "" {
		timeout, err := readDuration(text)
		if err != nil {
			return answer{}, parameterError("timeout", err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	limit, err := readLimit(r)
	if err != nil {
		return answer{}, err
	}
	done, err := a.awaitTurn(ctx)
	if err != nil {
		return answer{}, err
	}
	defer done()
	result, err := ask(ctx)
	if err != nil {
		return answer{}, err
	}
	out := answer{warnings: result.Warnings, infos: result.Infos}
	result.Series, out.warnings = cutToLimit(result.Series, limit, out.warnings)
	out.data = evaluated{result, a.db}
	return out, nil
}

// serveInstant evaluates at one moment: without one at the run's last sample, since
// a run that is done has nothing now.
func (a *api) serveInstant(r *http.Request) (answer, error) {
	at, err := a.readTime(r, "time")
	if err != nil {
		return answer{}, err
	}
	return a.evaluateQuery(r, func(ctx context.Context) (promql.Result, error) {
		return a.db.Instant(ctx, r.FormValue("query"), at)
	})
}

func (a *api) serveRange(r *http.Request) (answer, error) {
	for _, name := range []string{"start", "end", "step"} {
		if r.FormValue(name) == "" {
			return answer{}, parameterError(name, errors.New("it is needed"))
		}
	}
	from, err := a.readTime(r, "start")
	if err != nil {
		return answer{}, err
	}
	to, err := a.readTime(r, "end")
	if err != nil {
		return answer{}, err
	}
	step, err := readDuration(r.FormValue("step"))
	switch {
	case err != nil:
		return answer{}, parameterError("step", err)
	case to < from:
		return answer{}, parameterError("end", errors.New("it is before start"))
	case to.Sub(from)/step > time.Duration(a.options.MaxPoints):
		return answer{}, badData(fmt.Errorf("more than %d steps are asked for: make them longer", a.options.MaxPoints))
	}
	return a.evaluateQuery(r, func(ctx context.Context) (promql.Result, error) {
		return a.db.Range(ctx, r.FormValue("query"), from, to, step)
	})
}

// readSelector reads which series are meant.
func (a *api) readSelector(r *http.Request) (promql.Selector, error) {
	to, err := a.readTime(r, "end")
	if err != nil {
		return promql.Selector{}, err
	}
	if _, err := a.readTime(r, "start"); err != nil {
		return promql.Selector{}, err
	}
	return promql.Selector{Match: r.Form["match[]"], To: to}, nil
}

func (a *api) serveSeries(r *http.Request) (answer, error) {
	if len(r.Form["match[]"]) == 0 {
		return answer{}, parameterError("match[]", errors.New("it is needed"))
	}
	s, err := a.readSelector(r)
	if err != nil {
		return answer{}, err
	}
	all, err := a.db.Series(s)
	if err != nil {
		return answer{}, err
	}
	out := make([]labelSet, 0, len(all))
	for _, l := range all {
		out = append(out, labelSet(l))
	}
	return limitedList(r, out)
}

func (a *api) serveLabels(r *http.Request) (answer, error) {
	s, err := a.readSelector(r)
	if err != nil {
		return answer{}, err
	}
	names, err := a.db.LabelNames(s)
	if err != nil {
		return answer{}, err
	}
	return limitedList(r, names)
}

func (a *api) serveValues(r *http.Request) (answer, error) {
	s, err := a.readSelector(r)
	if err != nil {
		return answer{}, err
	}
	values, err := a.db.LabelValues(r.PathValue("name"), s)
	if err != nil {
		return answer{}, err
	}
	return limitedList(r, values)
}

// limitedList is a list, cut off where the request says so.
func limitedList[T any](r *http.Request, all []T) (answer, error) {
	limit, err := readLimit(r)
	if err != nil {
		return answer{}, err
	}
	var out answer
	all, out.warnings = cutToLimit(all, limit, nil)
	if all == nil {
		all = []T{}
	}
	out.data = all
	return out, nil
}

// cutToLimit cuts a list off at limit, 0 meaning none, and warns that it did.
func cutToLimit[T any](all []T, limit int, warnings []string) ([]T, []string) {
	if limit == 0 || len(all) <= limit {
		return all, warnings
	}
	return all[:limit], append(slices.Clone(warnings), "results truncated due to limit")
}

// described is what the API says of a metric.
type described struct {
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

func (a *api) serveMetadata(r *http.Request) (answer, error) {
	limit, err := readLimit(r)
	if err != nil {
		return answer{}, err
	}
	out := map[string][]described{}
	for _, f := range sortedKeys(a.db.Families()) {
		if only := r.FormValue("metric"); only != "" && only != f.Name {
			continue
		}
		if limit > 0 && len(out) == limit {
			break
		}
		if f.Type == "" {
			f.Type = "unknown"
		}
		out[f.Name] = []described{{Type: f.Type, Help: f.Help}}
	}
	return answer{data: out}, nil
}

func sortedKeys(families []record.Family) []record.Family {
	slices.SortFunc(families, func(a, b record.Family) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return families
}

// serveBuildInfo says what Prometheus' query language is like here: clients choose by
// its version what to ask.
func (a *api) serveBuildInfo(*http.Request) (answer, error) {
	return answer{data: map[string]string{
		"version": promql.EngineVersion, "revision": a.options.Version, "branch": "windtunnel",
		"buildUser": "", "buildDate": "", "goVersion": runtime.Version(),
	}}, nil
}

// serveRuntimeInfo says since when there are samples; kube-burner asks for it to see
// whether anybody is there.
func (a *api) serveRuntimeInfo(*http.Request) (answer, error) {
	first, _, _ := a.db.Span()
	return answer{data: map[string]any{
		"startTime": a.db.Wall(first).Format(time.RFC3339Nano), "goroutineCount": runtime.NumGoroutine(),
		"GOMAXPROCS": runtime.GOMAXPROCS(0), "storageRetention": "", "reloadConfigSuccess": true,
	}}, nil
}

// readLimit reads how many results are wanted at most; 0 means all.
func readLimit(r *http.Request) (int, error) {
	text := r.FormValue("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, parameterError("limit", fmt.Errorf("%q is no whole number from 0 on", text))
	}
	return n, nil
}
