// Package squeeze compresses the texts of pages into frames of zstd (RFC 8878).
//
// It is for one case: kilobytes to megabytes of values that are made alike, one after the other, all there at once. For those it takes two
// thirds of the time of the general encoder at its fastest, which keeps a history and weighs choices. Frames are larger by a twentieth to a
// quarter where the general encoder finds nearer matches, and half as large where there are none and digits are a few of all bytes.
//
// What it promises:
//
//  1. A frame is a function of the bytes it holds: not of frames made before with the same Encoder, of the processor or of the build.
//  2. Any decoder of the format reads it. It says how long its content is, is one segment, has no checksum and needs no dictionary.
//  3. It is longer than its content by its header and three bytes a block at most.
//
// # How it is made
//
// The content goes in blocks of 128 KiB. In each, the finder takes the first match that a table of hashes knows and follows it as far as it
// goes. That turns the block into sequences: so many bytes as they are, so many bytes from so far back. What is as it is goes through the
// Huffman coder of the library, sequences through finite states (FSE) made for the block. A block that gains nothing is stored.
package squeeze
