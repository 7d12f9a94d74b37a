package h2

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// head is what a header block says.
type head struct {
	method, scheme, authority, path string
	header                          http.Header
	values                          []string // room for those of header
	size                            int
	regular                         bool // a field has come that is no pseudo one
	pseudo                          bool // one that is
	bad, large                      bool
}

func (c *conn) onHeaders(f *http2.HeadersFrame) error {
	if f.HeadersEnded() {
		return c.takeBlock(f.StreamID, f.HeaderBlockFragment(), f.StreamEnded())
	}
	c.fragment = append(c.fragment[:0], f.HeaderBlockFragment()...)
	c.ends = f.StreamEnded()
	return nil
}

func (c *conn) onContinuation(f *http2.ContinuationFrame) error {
	c.mu.Lock()
	err := c.flood.addUnits(costReply) // each may be empty, and so without end
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if len(c.fragment)+len(f.HeaderBlockFragment()) > headerLimit {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	c.fragment = append(c.fragment, f.HeaderBlockFragment()...)
	if !f.HeadersEnded() {
		return nil
	}
	block := c.fragment
	c.fragment = nil
	return c.takeBlock(f.StreamID, block, c.ends)
}

// takeBlock takes a whole header block: of a new request, or trailers.
func (c *conn) takeBlock(id uint32, block []byte, ended bool) error {
	c.head = head{header: make(http.Header, 8), values: make([]string, 0, 8)}
	c.decoder.SetEmitEnabled(true)
	_, err := c.decoder.Write(block)
	if err == nil {
		err = c.decoder.Close()
	}
	if err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	if id%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	s, err := c.openStream(id, ended)
	if s == nil || err != nil {
		return err
	}
	c.dispatchStream(s)
	return nil
}

// openStream opens a stream, or ends one by its trailers. It returns the stream if its
// handler can be called.
func (c *conn) openStream(id uint32, ended bool) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.head
	if s := c.streams[id]; s != nil {
		switch {
		case s.ended:
			return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
		case !ended, h.bad, h.large, h.pseudo, s.declared > s.received:
			return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
		}
		return c.endLocked(s), nil
	}
	if id <= c.lastID {
		if c.skippedLocked(id) {
			return nil, http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed} // it may have been on its way when the stream ended
	}
	c.skipLocked(id)
	c.lastID = id
	c.opened++
	if len(c.streams) >= c.server.o.Streams || c.running >= c.server.o.Streams {
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	}
	s := &stream{conn: c, id: id, window: c.initial, taken: streamWindow, ended: ended, declared: -1}
	s.more.L = &c.mu
	if !s.newRequest(h) {
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	}
	c.streams[id] = s
	if h.large {
		c.tooLargeLocked(s)
		return nil, nil
	}
	if !ended {
		c.begun = append(c.begun, s)
		return nil, nil
	}
	return s, nil
}

// skip are streams from one to another that a client has left out: by the first use of
// a later one they are closed.
type skip struct{ from, to uint32 }

// maxSkips is how many are known: clients leave none out.
const maxSkips = 16

func (c *conn) skipLocked(id uint32) {
	if next := c.lastID + 2 - (c.lastID+1)%2; id > next && len(c.skipped) < maxSkips {
		c.skipped = append(c.skipped, skip{next, id - 2})
	}
}

func (c *conn) skippedLocked(id uint32) bool {
	for _, s := range c.skipped {
		if id >= s.from && id <= s.to {
			return true
		}
	}
	return false
}

// tooLargeLocked refuses a request whose header list is too large.
func (c *conn) tooLargeLocked(s *stream) {
	c.headersLocked(s.id, http.StatusRequestHeaderFieldsTooLarge, nil, true)
	c.closeLocked(s)
}

// takeField takes a field of the header block that is being decoded.
func (c *conn) takeField(f hpack.HeaderField) {
	h := &c.head
	if h.size += int(f.Size()); h.size > headerLimit {
		h.large = true
	}
	if h.large || h.bad {
		c.decoder.SetEmitEnabled(false)
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		h.takePseudo(f)
		return
	}
	h.regular = true
	key := canonicalName(f.Name)
	if key == "" || !validValue(f.Value) || isForbidden(key, f.Value) {
		h.bad = true
		return
	}
	if before := h.header[key]; before != nil {
		h.header[key] = append(before, f.Value)
		return
	}
	h.values = append(h.values, f.Value) // one that grows leaves its former room to those that are in it
	n := len(h.values)
	h.header[key] = h.values[n-1 : n : n]
}

func (h *head) takePseudo(f hpack.HeaderField) {
	var to *string
	switch f.Name {
	case ":method":
		to = &h.method
	case ":scheme":
		to = &h.scheme
	case ":authority":
		to = &h.authority
	case ":path":
		to = &h.path
	}
	h.pseudo = true
	if to == nil || *to != "" || h.regular || !validValue(f.Value) {
		h.bad = true
		return
	}
	*to = f.Value
}

// validValue says whether a field may have a value (RFC 9113, section 8.2.1).
func validValue(v string) bool {
	if n := len(v); n > 0 && (isBlank(v[0]) || isBlank(v[n-1])) {
		return false
	}
	return httpguts.ValidHeaderFieldValue(v)
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

// canonicalName returns the name of a field as http.Header has it, empty if it is none.
func canonicalName(name string) string {
	switch name { // those that come with each request
	case "accept":
		return "Accept"
	case "accept-encoding":
		return "Accept-Encoding"
	case "authorization":
		return "Authorization"
	case "content-length":
		return "Content-Length"
	case "content-type":
		return "Content-Type"
	case "user-agent":
		return "User-Agent"
	}
	if !httpguts.ValidHeaderFieldName(name) || strings.ToLower(name) != name {
		return ""
	}
	return http.CanonicalHeaderKey(name)
}

// isForbidden says whether a field is one of HTTP/1.1's connections.
func isForbidden(key, value string) bool {
	switch key {
	case "Connection", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive":
		return true
	case "Te":
		return value != "trailers"
	}
	return false
}

// newRequest makes the request that a header block is of; not ok if it is of none.
func (s *stream) newRequest(h *head) bool {
	if h.bad || h.method == "" || !h.large && (h.path == "" || h.scheme != "https" && h.scheme != "http") {
		return false
	}
	u, err := url.ParseRequestURI(h.path)
	if err != nil && !h.large || h.method == http.MethodConnect {
		return false
	}
	if !h.large && h.path[0] != '/' && (h.path != "*" || h.method != http.MethodOptions) {
		return false
	}
	r := *s.conn.template
	r.Method, r.URL, r.Header, r.Host, r.RequestURI = h.method, u, h.header, h.authority, h.path
	if r.Host == "" {
		r.Host = r.Header.Get("Host")
	}
	delete(r.Header, "Host")
	s.expects = strings.EqualFold(r.Header.Get("Expect"), "100-continue")
	delete(r.Header, "Expect")
	if length := h.header["Content-Length"]; len(length) > 0 {
		n, err := strconv.ParseUint(length[0], 10, 63)
		if err != nil || len(length) > 1 || s.ended && n > 0 {
			return false
		}
		s.declared = int64(n)
	}
	if !s.ended {
		r.ContentLength, r.Body = s.declared, body{s}
		if s.declared > 0 {
			s.body = make([]byte, 0, min(s.declared, defaultFrame))
		}
	}
	s.request = &r
	return true
}
