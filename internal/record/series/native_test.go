package series_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// observer is a histogram with classic and native buckets, as a server keeps it.
type observer struct {
	classic []float64 // upper bounds
	counts  []float64
	native  record.Histogram
}

func (o *observer) observe(v float64) {
	for i, le := range o.classic {
		if v <= le {
			o.counts[i]++
		}
	}
	h := &o.native
	h.Count++
	h.Sum += v
	if v <= h.ZeroThreshold {
		h.ZeroCount++
		return
	}
	index := int32(math.Ceil(math.Log2(v) * math.Exp2(float64(h.Schema))))
	i, found := slices.BinarySearchFunc(h.Positive, index, func(b record.Bucket, i int32) int { return int(b.Index) - int(i) })
	if !found {
		h.Positive = slices.Insert(h.Positive, i, record.Bucket{Index: index})
	}
	h.Positive[i].Count++
}

// coarsen makes one bucket of two, as a client does that has too many.
func (o *observer) coarsen() {
	h := record.Histogram{Schema: o.native.Schema - 1, ZeroThreshold: o.native.ZeroThreshold, ZeroCount: o.native.ZeroCount, Count: o.native.Count, Sum: o.native.Sum}
	for _, b := range o.native.Positive {
		index := (b.Index-1)>>1 + 1
		if n := len(h.Positive); n > 0 && h.Positive[n-1].Index == index {
			h.Positive[n-1].Count += b.Count
		} else {
			h.Positive = append(h.Positive, record.Bucket{Index: index, Count: b.Count})
		}
	}
	o.native = h
}

// Whatever happens to two histograms of a target, what is said of the time
// between two scrapes is what was observed in it, at each bound; and native
// bounds make the steps small.
func TestNativeBoundsRefineClassicOnes(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		anew := func() *observer {
			return &observer{classic: []float64{0.1, 1, 30, math.Inf(1)}, counts: make([]float64, 4), native: record.Histogram{Schema: 3, ZeroThreshold: 1e-6}}
		}
		all := []*observer{anew(), anew()}
		var values []float64 // observed since
		var from, to clock.Time
		store := read(t, func(w *record.Writer) {
			var ids [][]record.SeriesID
			for i := range all {
				n := record.Label{Name: "n", Value: fmt.Sprint(i)}
				one := []record.SeriesID{w.Define(record.Series{Target: "t", Name: "lat", Labels: []record.Label{n}})}
				for _, le := range []string{"0.1", "1", "30", "+Inf"} {
					one = append(one, w.Define(record.Series{Target: "t", Name: "lat_bucket", Labels: []record.Label{{Name: "le", Value: le}, n}}))
				}
				ids = append(ids, one)
			}
			begin := 1 + rng.IntN(10)
			for scrape := range 20 {
				at := clock.Time(scrape) * clock.Time(5*time.Second)
				s := record.Scrape{Target: "t", At: at}
				for i, o := range all {
					if i == 1 && scrape < 3 {
						continue // appears later
					}
					for range rng.IntN(30) {
						v := math.Exp(rng.NormFloat64()*3 - 2)
						o.observe(v)
						if scrape > begin {
							values = append(values, v)
						}
					}
					s.Histograms = append(s.Histograms, record.HistogramValue{Series: ids[i][0], Value: o.native.Clone()})
					for b, count := range o.counts {
						s.Values = append(s.Values, record.Value{Series: ids[i][1+b], Value: count})
					}
					switch chance := rng.IntN(12); {
					case chance == 0 && o.native.Count > 60: // after which there are fewer, so that it shows
						all[i] = anew()
					case chance == 1 && o.native.Schema > 1:
						o.coarsen()
					}
				}
				w.Scrape(&s)
				if scrape == begin {
					from = at
				}
				to = at
			}
		})
		groups, known := store.Histograms(series.HistogramQuery{Target: "t", Family: "lat", From: from, To: to})
		if !known || len(groups) != 1 {
			t.Fatalf("seed %d: %d groups, %v", seed, len(groups), known)
		}
		g := groups[0]
		for i, le := range g.UpTo {
			want := 0.0
			for _, v := range values {
				if v <= le {
					want++
				}
			}
			if g.Counts[i] != want {
				t.Fatalf("seed %d: %v values up to %v, want %v", seed, g.Counts[i], le, want)
			}
		}
		if len(g.UpTo) < 15 || !slices.IsSorted(g.UpTo) || !slices.IsSorted(g.Counts) {
			t.Errorf("seed %d: bounds %v, counts %v", seed, g.UpTo, g.Counts)
		}
	}
}

// Where not all have native buckets, the classic ones stand alone; where there
// are no others, the native ones do.
func TestNativeAloneAndInPart(t *testing.T) {
	h := &record.Histogram{Schema: 0, Count: 3, Sum: 7, Positive: []record.Bucket{{Index: 1, Count: 2}, {Index: 2, Count: 1}}}
	store := read(t, func(w *record.Writer) {
		alone := w.Define(record.Series{Target: "t", Name: "alone"})
		native := w.Define(record.Series{Target: "t", Name: "part", Labels: []record.Label{{Name: "n", Value: "1"}}})
		var classic []record.Value
		for i, le := range []string{"1", "+Inf"} {
			classic = append(classic, record.Value{Value: float64(3 + i),
				Series: w.Define(record.Series{Target: "t", Name: "part_bucket", Labels: []record.Label{{Name: "le", Value: le}, {Name: "n", Value: "2"}}})})
		}
		w.Scrape(&record.Scrape{Target: "t", At: 10})
		w.Scrape(&record.Scrape{Target: "t", At: 20, Values: classic, Histograms: []record.HistogramValue{{Series: alone, Value: h}, {Series: native, Value: h}}})
	})
	for family, want := range map[string]string{
		"alone": "[{Labels:[] UpTo:[1 2 4 +Inf] Counts:[0 2 3 3] Sum:7}]",
		"part":  "[{Labels:[] UpTo:[1 +Inf] Counts:[3 4] Sum:0}]",
	} {
		groups, known := store.Histograms(series.HistogramQuery{Target: "t", Family: family, From: 10, To: 20})
		if got := fmt.Sprintf("%+v", groups); got != want || !known {
			t.Errorf("%s: %s, %v, want %s", family, got, known, want)
		}
	}
}
