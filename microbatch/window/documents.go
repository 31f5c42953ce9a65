package window

// documents are what a Rolling keeps of the documents it emitted, so that the
// next emission extracts those alone whose accumulators were touched.
type documents struct {
	clean []bool // by group: nothing was touched since it was extracted
}

// touch says that the accumulators of a group, or what else its document is
// made of, may have changed.
func (d *documents) touch(g uint32) {
	if int(g) < len(d.clean) {
		d.clean[g] = false
	}
}

// touchAll is touch of every group.
func (d *documents) touchAll() { clear(d.clean) }

func (d *documents) bytes() int64 { return int64(cap(d.clean)) }
