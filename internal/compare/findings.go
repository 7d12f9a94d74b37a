package compare

// Findings are the sentences that a reader needs beside the table: every
// difference that the runs tell, and what they cannot tell, few sentences
// however many measures there are.
func (c *Comparison) Findings() (found, untold []string) { return c.findings() }
