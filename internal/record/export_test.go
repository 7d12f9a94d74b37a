package record

// BreakFile makes every later write of w fail, as a full disk does.
func BreakFile(w *Writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.file.Close()
}

// DecodeBlock decodes a block that may be damaged.
func DecodeBlock(b []byte) {
	s := &Stream{}
	_ = s.decodeBlock(b, Visitor{Call: func(Call) {}, Phase: func(Phase) {}, Sample: func(Sample) {}, Event: func(Event) {},
		Scrape: func(Scrape) {}, Histogram: func(HistogramSample) {}, Gone: func(Gone) {}})
}

// Size is how many bytes were written or wait to be.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size + int64(len(w.buf))
}

// What docs/reference/records.md says of the stream.
const (
	StreamHeader = streamHeader
	FlushBytes   = flushBytes
	FlushEvery   = flushEvery
)
