// The time that this process has computed. Tests that bound how long something takes read it instead of a clock, which goes on while
// other processes have the processor.

export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
