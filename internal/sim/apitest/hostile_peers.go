package apitest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// Peers returns the corpus.
func Peers() []Peer {
	return slices.Concat(peersThatAnswer(), peersThatFlood(), peersThatBreak(), peersThatStall())
}

// peersThatAnswer keep the rules of HTTP/2 and give answers of no use.
func peersThatAnswer() []Peer {
	fixed := func(name, code, body string, more ...string) Peer {
		return Peer{name, func(s *session, id uint32) { s.reply(id, code, body, more...) }}
	}
	var pages atomic.Int64
	page := func(token string) string {
		return `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"` + token + `"},"items":[]}`
	}
	return []Peer{
		{"no status", func(s *session, id uint32) { s.headers(id, true, "server", "x") }},
		{"a status that is no number", func(s *session, id uint32) { s.headers(id, true, ":status", "fine") }},
		{"an interim status alone", func(s *session, id uint32) { s.headers(id, true, ":status", "103") }},
		fixed("a redirection", "302", "", "location", "https://login.example/"),
		fixed("an end at once", "200", ""),
		fixed("not JSON", "200", "<html>Welcome</html>"),
		fixed("JSON that is deep", "200", strings.Repeat("[", 10_000)),
		fixed("401", "401", `{"kind":"Status","code":401,"message":"Unauthorized"}`),
		fixed("403", "403", `{"kind":"Status","code":403,"message":"forbidden"}`),
		fixed("410", "410", `{"kind":"Status","code":410,"message":"too old resource version"}`),
		fixed("500", "500", `{"kind":"Status","code":500,"message":"internal error"}`),
		fixed("429 for years", "429", "", "retry-after", "99999999"),
		fixed("503 for longer than numbers", "503", "", "retry-after", "99999999999999999999"),
		fixed("a list that leads to itself", "200", page("again")),
		{"a list without end", func(s *session, id uint32) { s.reply(id, "200", page(fmt.Sprint(pages.Add(1)))) }},
	}
}

// peersThatFlood send what costs them little and their client much.
func peersThatFlood() []Peer {
	flood := func(name string, frame func(*http2.Framer, uint32) error) Peer {
		return Peer{name, func(s *session, id uint32) { s.flood(func(f *http2.Framer) error { return frame(f, id) }) }}
	}
	large := bytes.Repeat([]byte("x"), 16<<10)
	return []Peer{
		flood("PING", func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) }),
		{"PING, and reads no answers", func(s *session, _ uint32) {
			s.deaf.Store(true)
			s.flood(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) })
			_ = s.conn.Close()
			s.leave.Do(func() { close(s.left) })
		}},
		flood("answers to no PING", func(f *http2.Framer, _ uint32) error { return f.WritePing(true, [8]byte{}) }),
		flood("SETTINGS", func(f *http2.Framer, _ uint32) error { return f.WriteSettings() }),
		flood("large SETTINGS", func(f *http2.Framer, _ uint32) error {
			return f.WriteRawFrame(http2.FrameSettings, 0, 0, bytes.Repeat([]byte{0, 4, 0, 0, 1, 0}, 2000))
		}),
		flood("WINDOW_UPDATE", func(f *http2.Framer, _ uint32) error { return f.WriteWindowUpdate(0, 1) }),
		flood("PRIORITY", func(f *http2.Framer, id uint32) error { return f.WritePriority(id, http2.PriorityParam{}) }),
		flood("frames of no kind", func(f *http2.Framer, _ uint32) error { return f.WriteRawFrame(0x77, 0, 0, large) }),
		flood("RST_STREAM of no stream", func(f *http2.Framer, _ uint32) error { return f.WriteRSTStream(1_000_001, 0) }),
		flood("GOAWAY", func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(1<<31-1, 0, nil) }),
		flood("DATA of no bytes", func(f *http2.Framer, id uint32) error { return f.WriteData(id, false, nil) }),
		flood("DATA of one byte", func(f *http2.Framer, id uint32) error { return f.WriteData(id, false, large[:1]) }),
		flood("DATA of no stream", func(f *http2.Framer, _ uint32) error { return f.WriteData(1_000_001, false, large) }),
		{"interim headers", func(s *session, id uint32) {
			for s.headers(id, false, ":status", "103") {
			}
		}},
		{"headers again and again", func(s *session, id uint32) {
			for s.headers(id, false, ":status", "200") {
			}
		}},
		{"headers of no stream", func(s *session, _ uint32) {
			for s.headers(1_000_001, false, ":status", "200") {
			}
		}},
		{"CONTINUATION of no bytes", func(s *session, id uint32) {
			s.headersOpen(id)
			s.flood(func(f *http2.Framer) error { return f.WriteContinuation(id, false, nil) })
		}},
		{"CONTINUATION without end", func(s *session, id uint32) {
			s.headersOpen(id)
			s.flood(func(f *http2.Framer) error { return f.WriteContinuation(id, false, large) })
		}},
		{"headers that unfold", func(s *session, id uint32) {
			entry := append([]byte{0x40, 1, 'x', 0x7f, 0xa1, 0x1d}, large[:3872]...) // 127 + 0x21 + 0x1d*128
			s.write(func(f *http2.Framer) error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: entry})
			})
			s.flood(func(f *http2.Framer) error { return f.WriteContinuation(id, false, bytes.Repeat([]byte{0xbe}, 16<<10)) })
		}},
		{"a body without end", func(s *session, id uint32) {
			s.headers(id, false, ":status", "200")
			s.flood(func(f *http2.Framer) error { return f.WriteData(id, false, large) })
		}},
		{"a refusal without end", func(s *session, id uint32) {
			s.headers(id, false, ":status", "500")
			s.flood(func(f *http2.Framer) error { return f.WriteData(id, false, large) })
		}},
	}
}

// headersOpen begins a header block that is to be continued.
func (s *session) headersOpen(id uint32) {
	s.write(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.encodeLocked(":status", "200")})
	})
}

// peersThatBreak break the rules, or the connection.
func peersThatBreak() []Peer {
	once := func(name string, frame func(*http2.Framer, uint32) error) Peer {
		return Peer{name, func(s *session, id uint32) { s.write(func(f *http2.Framer) error { return frame(f, id) }) }}
	}
	closing := func(p Peer) Peer {
		return Peer{p.Name, func(s *session, id uint32) { p.answer(s, id); _ = s.conn.Close() }}
	}
	raw := func(name string, bytes ...byte) Peer {
		return Peer{name, func(s *session, _ uint32) {
			s.mu.Lock()
			defer s.mu.Unlock()
			_, _ = s.conn.Write(bytes)
		}}
	}
	return []Peer{
		once("GOAWAY to each", func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, 0, nil) }),
		closing(once("GOAWAY and farewell", func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, 0, nil) })),
		once("REFUSED_STREAM to each", func(f *http2.Framer, id uint32) error { return f.WriteRSTStream(id, http2.ErrCodeRefusedStream) }),
		once("INTERNAL_ERROR to each", func(f *http2.Framer, id uint32) error { return f.WriteRSTStream(id, http2.ErrCodeInternal) }),
		once("frames of no size", func(f *http2.Framer, _ uint32) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1})
		}),
		once("a window beyond the largest", func(f *http2.Framer, _ uint32) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<32 - 1})
		}),
		once("a push", func(f *http2.Framer, id uint32) error {
			return f.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true})
		}),
		once("half a setting", func(f *http2.Framer, _ uint32) error {
			return f.WriteRawFrame(http2.FrameSettings, 0, 0, []byte{0, 4, 0})
		}),
		once("a short PING", func(f *http2.Framer, _ uint32) error { return f.WriteRawFrame(http2.FramePing, 0, 0, []byte("ping")) }),
		once("headers that are none", func(f *http2.Framer, id uint32) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
		}),
		raw("a frame of 16 MB", 0xff, 0xff, 0xff, byte(http2.FrameHeaders), 0, 0, 0, 0, 1),
		raw("more padding than frame", 0, 0, 1, byte(http2.FrameData), byte(http2.FlagDataPadded), 0, 0, 0, 1, 0xff),
		raw("HTTP/1.1", []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")...),
		{"a cut connection", func(s *session, _ uint32) { _ = s.conn.Close() }},
		{"half a connection", func(s *session, _ uint32) {
			if c, ok := s.conn.(interface{ CloseWrite() error }); ok {
				_ = c.CloseWrite()
			}
		}},
		{"a cut answer", func(s *session, id uint32) {
			s.headers(id, false, ":status", "200")
			s.write(func(f *http2.Framer) error { return f.WriteData(id, false, []byte(`{"kind":`)) })
			_ = s.conn.Close()
		}},
	}
}

// peersThatStall answer never, or as good as never.
func peersThatStall() []Peer {
	drip := func(s *session, f func(*http2.Framer) error) {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for s.write(f) {
			select {
			case <-tick.C:
			case <-s.over:
				return
			}
		}
	}
	return []Peer{
		{"silence", func(*session, uint32) {}},
		{"silence behind headers", func(s *session, id uint32) { s.headers(id, false, ":status", "200") }},
		{"no streams", func(s *session, _ uint32) {
			s.write(func(f *http2.Framer) error {
				return f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams})
			})
		}},
		{"no window", func(s *session, _ uint32) {
			s.write(func(f *http2.Framer) error { return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}) })
		}},
		{"slow bytes", func(s *session, id uint32) {
			s.headers(id, false, ":status", "200")
			drip(s, func(f *http2.Framer) error { return f.WriteData(id, false, []byte(" ")) })
		}},
		{"slow PINGs", func(s *session, _ uint32) {
			drip(s, func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) })
		}},
		{"a slow header block", func(s *session, id uint32) {
			s.headersOpen(id)
			drip(s, func(f *http2.Framer) error { return f.WriteContinuation(id, false, nil) })
		}},
	}
}
