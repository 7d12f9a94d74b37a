package peers

import (
	"encoding/binary"
	"net"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Requests of sock_diag(7): a struct inet_diag_req_v2, answered by a struct inet_diag_msg.
const (
	idAt       = 8 // in the request: two ports, two addresses, the device and a cookie
	addressLen = 16
	cookieLen  = 8
	requestLen = 56
	inodeAt    = 68 // in the answer
	answerLen  = 72
)

// socketOf returns the inode of the socket whose local and remote address these are. It asks the
// kernel for this one: a listing of all, such as /proc/net/tcp, leaves some out while others of the
// machine connect.
func socketOf(local, remote net.Addr) (inode uint32, err error) {
	from, ok := local.(*net.TCPAddr)
	to, ok2 := remote.(*net.TCPAddr)
	if !ok || !ok2 || from.IP.To4() == nil || to.IP.To4() == nil {
		return 0, errNoOwner
	}
	q := make(question, requestLen)
	q[0], q[1] = unix.AF_INET, unix.IPPROTO_TCP
	id := q[idAt:]
	binary.BigEndian.PutUint16(id, uint16(from.Port))
	binary.BigEndian.PutUint16(id[2:], uint16(to.Port))
	copy(id[4:], from.IP.To4())
	copy(id[4+addressLen:], to.IP.To4())
	for i := requestLen - cookieLen; i < requestLen; i++ {
		q[i] = 0xff // no cookie
	}
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
	request.AddData(q)
	answers, err := request.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil {
		return 0, err
	}
	if len(answers) != 1 || len(answers[0]) < answerLen {
		return 0, errNoOwner
	}
	return binary.NativeEndian.Uint32(answers[0][inodeAt:]), nil
}

// question is a request as bytes.
type question []byte

func (q question) Len() int          { return len(q) }
func (q question) Serialize() []byte { return q }
