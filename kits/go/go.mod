module envelope-sidecar/kits/go

go 1.19
