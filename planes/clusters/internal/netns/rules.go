package netns

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
)

// ErrRule says that a rule is none of those that are understood here.
var ErrRule = errors.New("rule of iptables is not understood")

// masquerade is a rule of the table nat: what comes from a range and leaves by a device
// gets the device's address, so that answers come back here.
type masquerade struct {
	from netip.Prefix
	by   string
}

// parseRule reads a rule as Kosmos writes it. It writes one form alone.
func parseRule(r link.Rule) (m masquerade, err error) {
	words := strings.Fields(r.Rule)
	if r.Table != "nat" || r.Chain != "POSTROUTING" || len(words)%2 != 0 {
		return m, fmt.Errorf("%w: %s %s %s", ErrRule, r.Table, r.Chain, r.Rule)
	}
	jump := ""
	for i := 0; i < len(words); i += 2 {
		switch words[i] {
		case "-s":
			m.from, err = netip.ParsePrefix(words[i+1])
		case "-o":
			m.by = words[i+1]
		case "-j":
			jump = words[i+1]
		default:
			err = ErrRule
		}
		if err != nil {
			return m, fmt.Errorf("%w: %s: %s", ErrRule, r.Rule, words[i])
		}
	}
	if jump != "MASQUERADE" || m.by == "" || len(m.by) >= unix.IFNAMSIZ || !m.from.Addr().Is4() {
		return m, fmt.Errorf("%w: %s", ErrRule, r.Rule)
	}
	return m, nil
}

// expressions are the rule's as nftables has it.
func (m masquerade) expressions() []expr.Any {
	from, mask := m.from.Masked().Addr().As4(), uint32(0xffffffff)<<(32-m.from.Bits())
	device := make([]byte, unix.IFNAMSIZ)
	copy(device, m.by)
	const sourceAt = 12 // of the IPv4 header
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceAt, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: []byte{byte(mask >> 24), byte(mask >> 16), byte(mask >> 8), byte(mask)}, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: from[:]},
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: device},
		&expr.Masq{},
	}
}

// rulesTable is where the rules are: a table of our own, which nobody else has rules in.
const rulesTable = "kosmos"

// applyRules makes the rules of the namespace that the thread is in those of a
// configuration, in one transaction; what stands already as it should be is not touched.
func applyRules(want []link.Rule) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	table := &nftables.Table{Name: rulesTable, Family: nftables.TableFamilyIPv4}
	chain := &nftables.Chain{Name: "POSTROUTING", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource}
	there, err := standing(c, table, chain)
	if len(want) == 0 && there == nil { // a kernel without rules has none that are too many
		return nil
	}
	if err != nil {
		return err
	}
	var texts [][]byte
	for _, r := range want {
		texts = append(texts, []byte(r.Rule))
	}
	if bytes.Equal(bytes.Join(there, nil), bytes.Join(texts, nil)) && len(there) == len(texts) {
		return nil
	}
	if there != nil {
		c.DelTable(table)
	}
	if len(want) > 0 {
		c.AddTable(table)
		c.AddChain(chain)
	}
	for _, r := range want {
		m, err := parseRule(r)
		if err != nil {
			return err
		}
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: m.expressions(), UserData: []byte(r.Rule)})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("rules of nftables, which --rules=false leaves out: %w", err)
	}
	return nil
}

// standing returns the texts of the rules that stand; nil: there is no table of ours.
func standing(c *nftables.Conn, table *nftables.Table, chain *nftables.Chain) (texts [][]byte, err error) {
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return nil, fmt.Errorf("rules of nftables, which --rules=false leaves out: %w", err)
	}
	for _, t := range tables {
		if t.Name != table.Name {
			continue
		}
		rules, err := c.GetRules(table, chain)
		if err != nil {
			return [][]byte{}, fmt.Errorf("rules: list: %w", err)
		}
		texts = [][]byte{}
		for _, r := range rules {
			texts = append(texts, r.UserData)
		}
	}
	return texts, nil
}
