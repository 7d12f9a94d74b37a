package live

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// cookieName is the cookie that keeps the token in a browser.
const cookieName = "windtunnel"

// stopHeader must be on a request that changes something. A page of another
// origin cannot set it without being asked first, and is refused then.
const stopHeader = "X-Windtunnel"

// admitRequest lets a request pass, or answers it.
func (s *Server) admitRequest(w http.ResponseWriter, r *http.Request) bool {
	// What another page asks for blindly would cost CPU while something is measured.
	if r.URL.Path != "/" && !ownOrigin(r) {
		s.writeFault(w, http.StatusForbidden, errors.New("asked for by a page of another origin"))
		return false
	}
	if s.options.Token == "" {
		// A name that somebody else's DNS turned into 127.0.0.1 is not ours.
		if !loopbackHost(r.Host) {
			s.writeFault(w, http.StatusForbidden, errors.New("this server answers to loopback addresses and to localhost only"))
			return false
		}
		return true
	}
	if given := r.URL.Query().Get("token"); given != "" && r.Method == http.MethodGet && r.URL.Path == "/" {
		if !s.isKnownToken(given) {
			s.writeFault(w, http.StatusUnauthorized, errors.New("this is not the token"))
			return false
		}
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: given, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
		})
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return false
	}
	if cookie, err := r.Cookie(cookieName); err == nil && s.isKnownToken(cookie.Value) {
		return true
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && s.isKnownToken(bearer) {
		return true
	}
	s.writeFault(w, http.StatusUnauthorized, errors.New("a token is needed: open the address that windtunnel serve printed"))
	return false
}

// isKnownToken compares in constant time, whatever the lengths.
func (s *Server) isKnownToken(token string) bool {
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.options.Token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ownOrigin says whether a request comes from our page, or from no page at all.
func ownOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host == r.Host
}
