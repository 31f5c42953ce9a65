package microbatch

// inflation is how many times its size an object takes of memory while it is
// read, decoded and aggregated; few take as much.
const inflation = 16

// makeRoom has the window give back what slices that are about to be built, of
// objects of so many bytes, need of the memory they share.
func (p *Pipeline) makeRoom(bytes int64) {
	need := p.set.BuildBytes
	if bytes < need/inflation {
		need = bytes * inflation
	}
	p.rolling.Room(p.set.WindowBytes - p.set.WindowBytes/frameShare + p.set.BuildBytes - need)
}
