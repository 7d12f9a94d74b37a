package h2_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/h2"
)

// within calls test with a peer of a server, over a pipe and in a bubble, where minutes
// take no time. What the server sends is read all the time, and answers come by stream.
func within(t *testing.T, o h2.Options, test func(p *peer, frames func(id uint32) answer)) {
	synctest.Test(t, func(t *testing.T) {
		o.Clock = clock.Start()
		s := h2.New(o)
		there, here := net.Pipe()
		go s.Serve(t.Context(), there)
		p := &peer{t: t, Framer: http2.NewFramer(here, here), net: here}
		p.enc = hpack.NewEncoder(&p.block)
		p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		streams := map[uint32]chan answer{}
		for id := uint32(1); id < 100; id += 2 {
			streams[id] = make(chan answer, 1)
		}
		go func() {
			defer here.Close()
			so := map[uint32]answer{}
			for {
				f, err := p.ReadFrame()
				if err != nil {
					return
				}
				id := f.Header().StreamID
				a := so[id]
				ended := f.Header().Flags.Has(http2.FlagDataEndStream)
				switch f := f.(type) {
				case *http2.MetaHeadersFrame:
					a.status = f.PseudoValue("status")
				case *http2.DataFrame:
					a.body += string(f.Data())
				case *http2.RSTStreamFrame:
					a.code, ended = f.ErrCode, true
				default:
					continue
				}
				if so[id] = a; ended {
					select {
					case streams[id] <- a:
					default: // an answer before the body came is followed by a reset
					}
				}
			}
		}()
		test(p, func(id uint32) answer { return <-streams[id] })
		_ = s.Close()
	})
}

// A client that opens no window, or does not send the body that it has promised, holds
// a request for a minute and no longer; the connection lives on.
func TestClientsHoldRequestsForAMinute(t *testing.T) {
	h := newHandler()
	within(t, h2.Options{Handler: h, Quick: quick}, func(p *peer, ended func(uint32) answer) {
		p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		began := time.Now()
		p.ask(1, true, "/large")
		p.ask(3, true, "/large?quick")
		p.ask(5, true, "/endless")
		p.ask(7, false, "/")
		p.do(p.WriteData(7, false, []byte("half")))
		for _, id := range []uint32{1, 3, 5} {
			if a := ended(id); a.code != http2.ErrCodeInternal || time.Since(began) != time.Minute {
				t.Errorf("stream %d after %v: %+v", id, time.Since(began), a)
			}
		}
		if a := ended(7); time.Since(began) != time.Minute {
			t.Errorf("the body's stream after %v: %+v", time.Since(began), a)
		}
		for range 2 { // that of /endless, and of the body
			if err := <-h.left; err == nil {
				t.Error("a handler has no error")
			}
		}
		p.do(p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535}))
		p.ask(9, true, "/")
		if a := ended(9); a.status != "200" {
			t.Errorf("after it: %+v", a)
		}
	})
}

// A byte now and then does not make it longer.
func TestTricklingWindowsDoNotHelp(t *testing.T) {
	within(t, h2.Options{Handler: newHandler()}, func(p *peer, ended func(uint32) answer) {
		p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		began := time.Now()
		p.ask(1, true, "/large")
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Second):
					_ = p.WriteWindowUpdate(1, 1)
				}
			}
		}()
		if a := ended(1); a.code != http2.ErrCodeInternal || time.Since(began) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(began), a)
		}
		close(stop)
	})
}

// A handler without an end gets a new minute with each deadline that it sets.
func TestDeadlinesOfHandlers(t *testing.T) {
	left := make(chan error, 1)
	o := h2.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := http.NewResponseController(w)
		_ = out.SetReadDeadline(time.Now().Add(time.Hour))
		for {
			_ = out.SetWriteDeadline(time.Now().Add(10 * time.Second))
			_, err := w.Write(bytes.Repeat([]byte{'x'}, 10))
			if err == nil {
				err = out.Flush()
			}
			if err != nil {
				left <- err
				return
			}
			if _, err := io.CopyN(io.Discard, r.Body, 1); err != nil { // the next piece is asked for
				left <- nil
				return
			}
		}
	})}
	within(t, o, func(p *peer, ended func(uint32) answer) {
		p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 50})
		p.ask(1, false, "/")
		for range 4 {
			time.Sleep(50 * time.Second)
			p.do(p.WriteData(1, false, []byte{1}))
		}
		time.Sleep(50 * time.Second)
		began := time.Now()
		p.do(p.WriteData(1, false, []byte{1})) // for a sixth piece the window has no room
		if a := ended(1); a.code != http2.ErrCodeInternal || len(a.body) != 50 || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), a)
		}
		if err := <-left; err == nil {
			t.Error("no error")
		}
	})
}
