// Package reader is the reference reader of an output: what a service that loads panes has to do, and no more.
//
// It promises, of every Snapshot it gives out:
//
//  1. It is one pane, with its base where there is one, as one version of CURRENT named them, each byte verified against the hashes down
//     the chain CURRENT → manifest → file.
//  2. Delta and base change together. A pane that was computed for another base than CURRENT names, or whose coverage does not reach back
//     to the base's cut, is refused.
//  3. Versions only rise: an older CURRENT (a cache, a restored bucket) is an error and the snapshot stays.
//  4. A document is delta[key] if there, absent if the pane has a tombstone for the key, else base[key].
//
// A file that is gone on the way was collected meanwhile: reading starts again from CURRENT, a bounded number of times. A failed poll
// leaves the snapshot as it was. Files are found through manifests alone, never by listing.
package reader
