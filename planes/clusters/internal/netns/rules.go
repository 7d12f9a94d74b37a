package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
)

// ErrRule says that a rule is none of those that are understood here.
var ErrRule = errors.New("rule of iptables is not understood")

// The chains of rules, by iptables' names.
const (
	preRouting  = "PREROUTING"
	postRouting = "POSTROUTING"
)

// translation is a rule of the table nat: packets from a range that leave by a device get
// another source, or packets to a range that come by a device another receiver.
type translation struct {
	chain  string
	match  netip.Prefix // of the source in postRouting, of the receiver in preRouting
	device string       // empty: any, where the source is masqueraded
	to     netip.Prefix // of one address for SNAT; the zero one: the device's own address (MASQUERADE)
}

// parseRule reads a rule as Kosmos writes it. It writes four forms alone.
func parseRule(r link.Rule) (t translation, err error) {
	words := strings.Fields(r.Rule)
	fault := fmt.Errorf("%w: %s %s %s", ErrRule, r.Table, r.Chain, r.Rule)
	if r.Table != "nat" || len(words)%2 != 0 {
		return t, fault
	}
	of := map[string]string{}
	for i := 0; i < len(words); i += 2 {
		of[words[i]] = words[i+1]
	}
	t.chain, t.device = r.Chain, of["-o"]
	from, jump, needs := of["-s"], of["-j"], 3
	switch _, leaves := of["-o"]; {
	case r.Chain == postRouting && jump == "MASQUERADE" && leaves:
	case r.Chain == postRouting && jump == "MASQUERADE":
		needs = 2
	case r.Chain == postRouting && jump == "SNAT":
		source, err := netip.ParseAddr(of["--to-source"])
		if err != nil {
			return t, fault
		}
		t.to, needs = netip.PrefixFrom(source, source.BitLen()), 4
	case r.Chain == preRouting && jump == "NETMAP":
		if t.to, err = netip.ParsePrefix(of["--to"]); err != nil {
			return t, fault
		}
		from, t.device, needs = of["-d"], of["-i"], 4
	default:
		return t, fault
	}
	if t.match, err = netip.ParsePrefix(from); err != nil || len(of) != needs || len(of) != len(words)/2 || (t.device == "") != (needs == 2) || len(t.device) >= unix.IFNAMSIZ {
		return t, fault
	}
	if t.to.IsValid() && (t.to.Addr().Is4() != t.match.Addr().Is4() || jump == "NETMAP" && t.to.Bits() != t.match.Bits()) {
		return t, fault
	}
	return t, nil
}

// isIPv6 says that the rule is of IPv6.
func (t translation) isIPv6() bool { return t.match.Addr().Is6() }

// nftExpressions are the rule's as nftables has it.
func (t translation) nftExpressions() []expr.Any {
	address, device := t.match.Masked().Addr().AsSlice(), make([]byte, unix.IFNAMSIZ)
	copy(device, t.device)
	offset, key, family := uint32(12), expr.MetaKeyOIFNAME, uint32(unix.NFPROTO_IPV4) // where the source is in the header of IPv4
	if t.isIPv6() {
		offset, family = 8, unix.NFPROTO_IPV6
	}
	size := uint32(len(address))
	if t.chain == preRouting { // the receiver stands behind the source
		offset, key = offset+size, expr.MetaKeyIIFNAME
	}
	out := []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: maskedBytes(t.match, 0xff, 0), Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: address},
	}
	if t.device != "" {
		out = append(out, &expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: device})
	}
	out = append(out, &expr.Counter{})
	if !t.to.IsValid() {
		return append(out, &expr.Masq{})
	}
	first := t.to.Masked().Addr().AsSlice()
	last := maskedBytes(t.to, 0, 0xff)
	for i := range last {
		last[i] |= first[i]
	}
	nat := &expr.NAT{Type: expr.NATTypeSourceNAT, Family: family, RegAddrMin: 1, RegAddrMax: 2}
	if t.chain == preRouting { // the range's bits are replaced, those of the host stay
		nat.Type, nat.Prefix = expr.NATTypeDestNAT, true
	}
	return append(out, &expr.Immediate{Register: 1, Data: first}, &expr.Immediate{Register: 2, Data: last}, nat)
}

// maskedBytes are bytes as long as an address: some for the bits of a range, others for those of
// hosts.
func maskedBytes(p netip.Prefix, network, host byte) []byte {
	out := make([]byte, p.Addr().BitLen()/8)
	for i := range out {
		keep := min(max(p.Bits()-8*i, 0), 8)
		mask := byte(0xff << (8 - keep))
		out[i] = network&mask | host&^mask
	}
	return out
}

// rulesTable is where the rules are: a table of our own for each family, which nobody else
// has rules in.
const rulesTable = "kosmos"

// ruleSet is what rules of one family are made of.
type ruleSet struct {
	table  *nftables.Table
	chains []*nftables.Chain
}

func newRuleSet(family nftables.TableFamily) ruleSet {
	t := &nftables.Table{Name: rulesTable, Family: family}
	return ruleSet{t, []*nftables.Chain{
		{Name: preRouting, Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest},
		{Name: postRouting, Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource},
	}}
}

// applyRules makes the rules of the namespace that the thread is in those of a
// configuration, a family's in one transaction; what stands already as it should be is not
// touched.
func applyRules(want []link.Rule) error {
	four, six := []translation{}, []translation{}
	texts := map[translation]string{}
	for _, r := range want {
		t, err := parseRule(r)
		if err != nil {
			return err
		}
		texts[t] = r.Rule
		if t.isIPv6() {
			six = append(six, t)
		} else {
			four = append(four, t)
		}
	}
	if err := newRuleSet(nftables.TableFamilyIPv4).applyRules(four, texts); err != nil {
		return err
	}
	return newRuleSet(nftables.TableFamilyIPv6).applyRules(six, texts)
}

func (s ruleSet) applyRules(want []translation, texts map[translation]string) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	there, err := s.currentRules(c)
	if len(want) == 0 && there == nil { // a kernel without rules has none that are too many
		return nil
	}
	if err != nil {
		return err
	}
	asked := []string{}
	for _, chain := range s.chains {
		for _, t := range want {
			if t.chain == chain.Name {
				asked = append(asked, texts[t])
			}
		}
	}
	if len(want) > 0 && slices.Equal(there, asked) {
		return nil
	}
	if there != nil {
		c.DelTable(s.table)
	}
	if len(want) > 0 {
		c.AddTable(s.table)
	}
	for _, chain := range s.chains {
		if len(want) == 0 {
			break
		}
		c.AddChain(chain)
		for _, t := range want {
			if t.chain == chain.Name {
				c.AddRule(&nftables.Rule{Table: s.table, Chain: chain, Exprs: t.nftExpressions(), UserData: []byte(texts[t])})
			}
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("rules of nftables, which --rules=false leaves out: %w", err)
	}
	return nil
}

// currentRules returns the texts of the rules that stand; nil: there is no table of ours.
func (s ruleSet) currentRules(c *nftables.Conn) (texts []string, err error) {
	tables, err := c.ListTablesOfFamily(s.table.Family)
	if err != nil {
		return nil, fmt.Errorf("rules of nftables, which --rules=false leaves out: %w", err)
	}
	if !slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == s.table.Name }) {
		return nil, nil
	}
	texts = []string{}
	for _, chain := range s.chains {
		rules, err := c.GetRules(s.table, chain)
		if err != nil {
			return []string{}, fmt.Errorf("rules: list: %w", err)
		}
		for _, r := range rules {
			texts = append(texts, string(r.UserData))
		}
	}
	return texts, nil
}
