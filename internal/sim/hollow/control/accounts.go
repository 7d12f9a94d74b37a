package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// User is the identity of a client.
type User struct {
	Name   string
	Groups []string
}

// Claims are what the token of a service account says.
type Claims struct {
	Namespace string   `json:"ns"`
	Name      string   `json:"sa"`
	UID       string   `json:"uid"`
	Audiences []string `json:"aud,omitempty"`
	Expires   int64    `json:"exp"` // Unix seconds
}

// accountPrefix is what the tokens of service accounts begin with.
const accountPrefix = "hollow."

// Accounts are the bearer tokens of one cluster: the administrator's, the client's, whose
// token may expire, and those of service accounts. Their methods may be called from many
// goroutines.
type Accounts struct {
	cluster  string // its name
	secret   string // signs the tokens of service accounts
	client   string
	registry *registry.Registry

	admin   atomic.Pointer[string]
	expired atomic.Bool // the client's token is no longer accepted
}

// NewAccounts returns the accounts of a cluster. secret, which signs the tokens of
// service accounts, is also the administrator's token until SetAdmin.
func NewAccounts(cluster, secret, client string, r *registry.Registry) *Accounts {
	a := &Accounts{cluster: cluster, secret: secret, client: client, registry: r}
	a.SetAdmin(secret)
	return a
}

// SetAdmin replaces the administrator's token.
func (a *Accounts) SetAdmin(token string) { a.admin.Store(&token) }

// Admin returns the administrator's token.
func (a *Accounts) Admin() string { return *a.admin.Load() }

// Client returns the client's token.
func (a *Accounts) Client() string { return a.client }

// SetExpired says whether the client's token has expired.
func (a *Accounts) SetExpired(expired bool) { a.expired.Store(expired) }

// Identify returns the user of a token; not ok where the token is not accepted. Claims are
// empty but for service accounts.
func (a *Accounts) Identify(token string, now time.Time) (User, Claims, bool) {
	switch {
	case isEqual(token, a.Admin()):
		return User{"admin", []string{"system:masters", "system:authenticated"}}, Claims{}, true
	case isEqual(token, a.client) && !a.expired.Load():
		return User{"client", []string{"system:masters", "system:authenticated"}}, Claims{}, true
	}
	return a.identifyServiceAccount(token, now)
}

func isEqual(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// Sign returns a token with these claims, which only this cluster accepts.
func (a *Accounts) Sign(c Claims) string {
	raw, _ := json.Marshal(c) // plain fields
	body := base64.RawURLEncoding.EncodeToString(raw)
	return accountPrefix + body + "." + a.signature(body)
}

func (a *Accounts) signature(body string) string {
	h := hmac.New(sha256.New, []byte(a.secret))
	h.Write([]byte(a.cluster + "." + body))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// identifyServiceAccount returns the service account of a token.
func (a *Accounts) identifyServiceAccount(token string, now time.Time) (User, Claims, bool) {
	rest, ok := strings.CutPrefix(token, accountPrefix)
	body, signature, cut := strings.Cut(rest, ".")
	if !ok || !cut || !hmac.Equal([]byte(signature), []byte(a.signature(body))) {
		return User{}, Claims{}, false
	}
	var c Claims
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c.Expires < now.Unix() || a.registry.Store().Table("serviceaccounts").Get(kind.Key(c.Namespace, c.Name)) == nil {
		return User{}, Claims{}, false
	}
	return User{"system:serviceaccount:" + c.Namespace + ":" + c.Name,
		[]string{"system:serviceaccounts", "system:serviceaccounts:" + c.Namespace, "system:authenticated"}}, c, true
}
