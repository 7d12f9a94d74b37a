package link

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// A connection that rests in crypto/tls costs 5 to 10 KB: buffers, key schedules,
// certificates, the handshake's remains. What TLS 1.3 needs to go on is two
// secrets and two counters. So the handshake is crypto/tls's, and the records
// after it are ours (RFC 8446, sections 5 and 7); experiments/0015 has the sizes.

// Sizes and types of RFC 8446, section 5.
const (
	recordHeader   = 5
	maxPlain       = 1 << 14
	maxCipher      = maxPlain + 256
	typeAlert      = 21
	typeHandshake  = 22
	typeData       = 23
	keyUpdate      = 24
	sessionTicket  = 4
	tagSize        = 16
	handshakeStart = 4 // type and length of a handshake message
)

var (
	errRecord = errors.New("bad TLS record")
	errClosed = errors.New("the peer ended TLS")
)

// traffic is one direction of a connection.
type traffic struct {
	secret [sha256.Size]byte
	key    [16]byte
	iv     [12]byte
	seq    uint64
}

func newTraffic(secret []byte) (*traffic, error) {
	t := &traffic{}
	if len(secret) != len(t.secret) {
		return nil, fmt.Errorf("%w: a secret of %d bytes", errRecord, len(secret))
	}
	copy(t.secret[:], secret)
	return t, t.deriveKeys()
}

// deriveKeys makes key and iv of the secret (section 7.3).
func (t *traffic) deriveKeys() error {
	t.seq = 0
	return errors.Join(expandLabel(t.secret[:], "key", t.key[:]), expandLabel(t.secret[:], "iv", t.iv[:]))
}

// advanceSecret goes to the next secret (section 7.2).
func (t *traffic) advanceSecret() error {
	old := t.secret
	return errors.Join(expandLabel(old[:], "traffic upd", t.secret[:]), t.deriveKeys())
}

// expandLabel is HKDF-Expand-Label with an empty context (section 7.1).
func expandLabel(secret []byte, label string, out []byte) error {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(len(out)))
	info = append(append(append(info, byte(len(label))), label...), 0)
	got, err := hkdf.Expand(sha256.New, secret, string(info), len(out))
	copy(out, got)
	return err
}

func (t *traffic) newAEAD() (cipher.AEAD, [12]byte, error) {
	block, err := aes.NewCipher(t.key[:])
	if err != nil {
		return nil, t.iv, err
	}
	gcm, err := cipher.NewGCM(block)
	nonce := t.iv
	for i := range 8 {
		nonce[4+i] ^= byte(t.seq >> (56 - 8*i))
	}
	t.seq++
	return gcm, nonce, err
}

// sealRecords appends the records of plain, which has at least a byte.
func (t *traffic) sealRecords(out, plain []byte, kind byte) ([]byte, error) {
	for len(plain) > 0 {
		part := plain[:min(len(plain), maxPlain)]
		plain = plain[len(part):]
		gcm, nonce, err := t.newAEAD()
		if err != nil {
			return nil, err
		}
		n := len(part) + 1 + tagSize
		start := len(out)
		out = append(out, typeData, 3, 3, byte(n>>8), byte(n))
		head := [recordHeader]byte(out[start:])
		body := len(out)
		out = append(append(out, part...), kind)
		out = gcm.Seal(out[:body], nonce[:], out[body:], head[:])
	}
	return out, nil
}

// openRecord decrypts one whole record in place and returns its type and content.
func (t *traffic) openRecord(record []byte) (kind byte, plain []byte, err error) {
	if record[0] != typeData {
		return 0, nil, fmt.Errorf("%w: type %d", errRecord, record[0])
	}
	gcm, nonce, err := t.newAEAD()
	if err != nil {
		return 0, nil, err
	}
	body := record[recordHeader:]
	plain, err = gcm.Open(body[:0], nonce[:], body, record[:recordHeader])
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	for len(plain) > 0 && plain[len(plain)-1] == 0 { // padding
		plain = plain[:len(plain)-1]
	}
	if len(plain) == 0 {
		return 0, nil, fmt.Errorf("%w: without a type", errRecord)
	}
	return plain[len(plain)-1], plain[:len(plain)-1], nil
}

// records is the TLS of a connection after its handshake.
type records struct{ in, out *traffic }

// openRecords hands the data in b to f, record by record, and returns what is left of
// b, the begin of a record. b is overwritten. errClosed says that the peer ended.
func (r *records) openRecords(b []byte, f func([]byte) error) (rest []byte, update bool, err error) {
	for len(b) >= recordHeader {
		n := recordHeader + int(binary.BigEndian.Uint16(b[3:]))
		if n > recordHeader+maxCipher {
			return nil, update, fmt.Errorf("%w: %s", errRecord, unit.Count(n, "bytes"))
		}
		if len(b) < n {
			break
		}
		kind, plain, err := r.in.openRecord(b[:n])
		b = b[n:]
		if err == nil {
			switch kind {
			case typeData:
				err = f(plain)
			case typeAlert:
				err = alertError(plain)
			case typeHandshake:
				var more bool
				more, err = r.readPostHandshake(plain)
				update = update || more
			default:
				err = fmt.Errorf("%w: content type %d", errRecord, kind)
			}
		}
		if err != nil {
			return nil, update, err
		}
	}
	return b, update, nil
}

// alertError is the error that an alert stands for (section 6).
func alertError(b []byte) error {
	if len(b) == 2 && b[1] != 0 {
		return fmt.Errorf("the peer says: %w", tls.AlertError(b[1]))
	}
	return errClosed
}

// readPostHandshake takes messages that come after the handshake: tickets are of no use
// to who resumes nothing, a key update may ask for ours.
func (r *records) readPostHandshake(b []byte) (update bool, err error) {
	for len(b) >= handshakeStart {
		n := handshakeStart + int(b[1])<<16 + int(b[2])<<8 + int(b[3])
		if len(b) < n {
			break
		}
		switch {
		case b[0] == sessionTicket:
		case b[0] == keyUpdate && n == handshakeStart+1:
			if err := r.in.advanceSecret(); err != nil {
				return false, err
			}
			update = update || b[handshakeStart] == 1
		default:
			return false, fmt.Errorf("%w: handshake message %d", errRecord, b[0])
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return false, fmt.Errorf("%w: handshake message cut", errRecord)
	}
	return update, nil
}

// appendKeyUpdate appends the answer to a key update and goes to the next secret.
func (r *records) appendKeyUpdate(out []byte) ([]byte, error) {
	out, err := r.out.sealRecords(out, []byte{keyUpdate, 0, 0, 1, 0}, typeHandshake)
	return out, errors.Join(err, r.out.advanceSecret())
}
