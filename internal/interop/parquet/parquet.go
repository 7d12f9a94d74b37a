// Package parquet writes the records of a run as Apache Parquet, which DuckDB,
// pandas and most other tools for data open: a file for each table of package
// rows, whose columns it has.
//
// It adds nothing to the rows and reads none back. The verbs export and run
// call it.
package parquet

import (
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/windtunnel/windtunnel/internal/record/rows"
)

// groupRows is how many rows are kept in memory, in their encoded form, before
// they go to the file: some 20 MB of calls.
const groupRows = 1 << 18

// Write writes the tables of the run directory at run into NAME.parquet files
// of a folder, which it makes when it is not there.
func Write(run, folder string) ([]rows.File, error) {
	return rows.Export(run, folder, ".parquet", func(f *rows.Files) rows.Sinks {
		return rows.Sinks{
			Calls: openFile[rows.Call](f, "calls"), Lifecycles: openFile[rows.Phase](f, "lifecycles"),
			Samples: openFile[rows.Sample](f, "samples"), Histograms: openFile[rows.Histogram](f, "histograms"),
			Scrapes: openFile[rows.Scrape](f, "scrapes"), Events: openFile[rows.Event](f, "events"),
		}
	})
}

// openFile begins a table's file. What a reader needs to know of the run besides is
// in the file's metadata.
func openFile[T any](f *rows.Files, name string) rows.Sink[T] {
	return parquet.NewGenericWriter[T](f.Create(name),
		parquet.Compression(&parquet.Zstd),
		parquet.MaxRowsPerRowGroup(groupRows),
		parquet.CreatedBy("windtunnel", f.Manifest.Versions["windtunnel"], ""),
		parquet.KeyValueMetadata("windtunnel.scenario", f.Manifest.Scenario),
		parquet.KeyValueMetadata("windtunnel.started", f.Manifest.Started.UTC().Format(time.RFC3339Nano)),
	)
}
