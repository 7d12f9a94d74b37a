package link

import (
	"bufio"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455, section 4.2.2, says so
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// acceptKey is what a server answers to a key (RFC 6455, section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// requestUpgrade asks for a websocket; early is what came behind the answer.
func requestUpgrade(stream io.ReadWriter, host, path string, header http.Header) (early []byte, err error) {
	var nonce [16]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	key := base64.StdEncoding.EncodeToString(nonce[:])
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n", path, host, key)
	if err := header.Write(&b); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(stream, b.String()+"\r\n"); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(stream, 4<<10)
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	_ = answer.Body.Close() // a websocket's answer has none
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Sec-Websocket-Accept") != acceptKey(key) {
		return nil, fmt.Errorf("%w: %s", ErrRefused, answer.Status)
	}
	return takeBuffered(r)
}

// takeBuffered returns what a reader has and nobody has taken.
func takeBuffered(r *bufio.Reader) ([]byte, error) {
	b := make([]byte, r.Buffered())
	_, err := io.ReadFull(r, b)
	return b, err
}

// maxRequest bounds the request that opens a websocket, in bytes.
const maxRequest = 16 << 10

// answerUpgrade reads a request for a websocket, asks whether it is allowed, and answers.
func answerUpgrade(stream io.ReadWriter, state *tls.ConnectionState, allow func(*http.Request, *tls.ConnectionState) error) (early []byte, err error) {
	r := bufio.NewReaderSize(io.LimitReader(stream, maxRequest), 4<<10)
	q, err := http.ReadRequest(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	key := q.Header.Get("Sec-Websocket-Key")
	switch {
	case q.Method != http.MethodGet || !strings.EqualFold(q.Header.Get("Upgrade"), "websocket") || key == "" || q.Header.Get("Sec-Websocket-Version") != "13":
		err = refuseUpgrade(stream, http.StatusBadRequest, fmt.Errorf("%w: no request for a websocket of version 13", ErrRefused))
	default:
		if err = allow(q, state); err != nil {
			err = refuseUpgrade(stream, http.StatusForbidden, err)
		}
	}
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(stream, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptKey(key))
	if err != nil {
		return nil, err
	}
	return takeBuffered(r)
}

// refuseUpgrade answers with a code and returns why.
func refuseUpgrade(stream io.Writer, code int, why error) error {
	text := why.Error() + "\n"
	_, err := fmt.Fprintf(stream, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
		code, http.StatusText(code), len(text), text)
	if err != nil {
		return fmt.Errorf("%w; the answer was not taken: %w", why, err)
	}
	return why
}
