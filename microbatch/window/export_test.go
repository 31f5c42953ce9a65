package window

// Accumulators are those of every key, by fn.
func (r *Rolling) Accumulators() map[string][][]byte {
	out := map[string][][]byte{}
	for _, g := range r.order {
		accs := make([][]byte, len(r.cells))
		for j, c := range r.cells {
			accs[j] = c.column.AppendAcc(nil, c.at(g))
		}
		out[string(r.keys.Bytes(g))] = accs
	}
	return out
}

// LookUp sets how many keys are looked up in slices before nodes are made.
func (r *Rolling) LookUp(n int) { r.lookups = n }
