module github.com/deltad/deltad/bench

go 1.26.8

replace github.com/deltad/deltad => ../

require (
	github.com/DataDog/sketches-go v1.4.8
	github.com/RoaringBitmap/roaring/v2 v2.30.0
	github.com/axiomhq/hyperloglog v0.3.0
	github.com/deltad/deltad v0.0.0-00010101000000-000000000000
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/dgryski/go-metro v0.0.0-20250106013310-edb8663e5e33 // indirect
	github.com/kamstrup/intmap v0.5.2 // indirect
	github.com/mschoch/smat v0.2.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
