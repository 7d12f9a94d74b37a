package series

import (
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Read reads the samples of the record stream at path. A tail that a crash cut
// off is not an error.
func Read(path string) (*Store, error) {
	s := NewStore()
	_, err := record.Read(path, s.Visitor)
	return s, err
}

// Visitor fills the store from a stream that is being read: all that Read
// reads, with what PromQL needs beyond values: native histograms, series that
// came to an end, the series up, scrape_duration_seconds and
// scrape_samples_scraped of each target, and the descriptions of families.
func (s *Store) Visitor(stream *record.Stream) record.Visitor {
	return record.Visitor{
		Sample: func(v record.Sample) { s.Add(stream.Series, v) },
		Event:  s.Event,
		Scrape: func(v record.Scrape) {
			s.addScrape(v)
			s.families = stream.Families
		},
		Histogram: func(v record.HistogramSample) {
			one := s.seriesAt(stream.Series, v.Series, v.At)
			if one.native == nil {
				one.native = &native{}
			}
			one.at = append(one.at, v.At)
			one.native.addHistogram(v.Value)
		},
		Gone: func(v record.Gone) {
			if int(v.Series) < len(s.all) {
				one := s.all[v.Series]
				one.gone = append(one.gone, v.At)
			}
		},
	}
}

// addScrape takes note of a scrape, before its samples.
func (s *Store) addScrape(v record.Scrape) {
	t := s.targetOf(v.Target)
	t.scrapes = append(t.scrapes, v.At)
	s.addDerived(&t.up, record.Series{Target: v.Target, Name: "up"}, v.At, 1)
	s.addDerived(&t.took, record.Series{Target: v.Target, Name: "scrape_duration_seconds"}, v.At, v.Took.Seconds())
	s.addDerived(&t.points, record.Series{Target: v.Target, Name: "scrape_samples_scraped"}, v.At, float64(v.Points))
}

// addDerived adds a sample of a series that stands for the scrapes themselves.
func (s *Store) addDerived(one **Series, named record.Series, at clock.Time, v float64) {
	if *one == nil {
		*one = &Series{Series: named, target: s.targetOf(named.Target), from: derived}
		s.byName[named.Name] = append(s.byName[named.Name], *one)
	}
	(*one).at, (*one).values = append((*one).at, at), append((*one).values, v)
	s.extendRange(at)
}
