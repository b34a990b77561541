module sluice/example

go 1.19

require sluice/client v0.0.0

replace sluice/client => ../../clients/go
