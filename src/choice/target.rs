//! The device of a session.

use crate::codec::{Settings, SnapshotCodec};
use crate::config::{Backend, Config};
use crate::device::cuda::{self, Location};
use crate::device::{AppField, CudaDevice, Device, HostDevice};
use crate::error::{fail, Result};
use crate::layout::{Layout, Parts};
use crate::tier::SnapshotCoder;

/// The device that a session's snapshots and fields are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The host.
    Host,
    /// The CUDA device with this ordinal, from 0.
    Cuda(i32),
}

impl Target {
    /// Returns the device as `find` does. Fails if the configuration asks for something that only the host has.
    pub fn of(config: &Config, fields: &[AppField]) -> Result<Option<Self>> {
        let found = Self::find(config, fields)?;
        if matches!(found, Some(Target::Cuda(_))) {
            config.check_on_cuda()?;
        }
        Ok(found)
    }

    /// Returns the device that the configuration names; or else the device whose memory holds the
    /// fields; or else the host if there is no CUDA device. `None`: only later fields can tell the
    /// device. CUDA is not started in this process while fields are to tell the device.
    /// Fields in host memory that kernels can use do not tell the device, and are an error.
    fn find(config: &Config, fields: &[AppField]) -> Result<Option<Self>> {
        let (backend, ordinal) = (config.device.backend, config.device.ordinal);
        match (backend, ordinal) {
            (Backend::Host, Some(device)) => {
                return fail!(
                    Config,
                    "device = {}: the host backend has no devices; use 0",
                    device + 1
                )
            }
            (Backend::Host, None) => return Ok(Some(Target::Host)),
            (Backend::Cuda, Some(device)) => return Ok(Some(Target::Cuda(device))),
            _ => {}
        }
        let locations: Vec<Location> =
            fields.iter().filter_map(|f| f.memory).map(cuda::locate).collect::<Result<_>>()?;
        let of_fields = locations.iter().find_map(|location| match location {
            Location::Device(k) | Location::Managed(k) => Some(*k),
            Location::Host => None,
        });
        match (backend, ordinal.or(of_fields)) {
            (_, Some(device)) => Ok(Some(Target::Cuda(device))),
            (Backend::ByFields, None) if locations.is_empty() && !cuda::may_have_device() => {
                Ok(Some(Target::Host))
            }
            _ if locations.is_empty() => Ok(None),
            (Backend::Cuda, None) => Ok(Some(Target::Cuda(cuda::current_device().unwrap_or(0)))),
            // The host backend would copy fields while kernels on a stream still write them.
            (_, None) => match cuda::device_with_pageable_access() {
                None => Ok(Some(Target::Host)),
                Some(device) => fail!(
                    Config,
                    "the fields are in host memory, which kernels of CUDA device {device} can use, too, and this process has initialised CUDA: set \
                     backend = 1 (host) if the calling thread computes the fields, or give memory of cudaMalloc or cudaMallocManaged if kernels do"
                ),
            },
        }
    }

    /// Returns the backend of this device.
    pub fn backend(self) -> Backend {
        match self {
            Target::Host => Backend::Host,
            Target::Cuda(_) => Backend::Cuda,
        }
    }

    /// Refuses fields that a session on this device cannot copy.
    pub fn check(self, fields: &[AppField]) -> Result<()> {
        let with_memory = fields.iter().enumerate().filter_map(|(i, f)| Some((i, f.memory?)));
        for (i, memory) in with_memory {
            if matches!(self, Target::Cuda(_)) && !memory.rows().is_contiguous() {
                return fail!(
                    Unsupported,
                    "field {i}: pitch2 or pitch3 leaves gaps between its rows, and sessions on CUDA copy contiguous fields \
                     only in this version: give the whole array with its halos (pitches 0), or use the host backend"
                );
            }
        }
        self.check_memory(fields)
    }

    /// Refuses fields whose memory is not this device's.
    pub fn check_memory(self, fields: &[AppField]) -> Result<()> {
        if self == Target::Host && !cuda::is_in_process() {
            return Ok(());
        }
        for (i, memory) in fields.iter().enumerate().filter_map(|(i, f)| Some((i, f.memory?))) {
            let address = memory.address();
            match (self, cuda::locate(memory)?) {
                (Target::Host, Location::Device(k)) => {
                    return fail!(Argument, "field {i}: {address:p} is memory of CUDA device {k}: the host backend copies host memory")
                }
                (Target::Cuda(mine), Location::Device(k)) if k != mine => {
                    return fail!(Argument, "field {i}: {address:p} is memory of CUDA device {k}, this session's or call's is {mine}")
                }
                (Target::Cuda(_), Location::Host) => {
                    return fail!(Argument, "field {i}: {address:p} is host memory: the CUDA backend copies device or managed memory")
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens the device.
    pub fn open(self, config: &Config) -> Result<Box<dyn Device>> {
        match self {
            Target::Host => Ok(Box::new(HostDevice::new(config.device.link_bandwidth)?)),
            Target::Cuda(ordinal) => Ok(Box::new(CudaDevice::new(ordinal)?)),
        }
    }

    /// Makes a snapshot coder on `device`, which is this target's, for states cut into `parts`.
    pub fn coder(
        self,
        device: &mut dyn Device,
        settings: &Settings,
        layout: &Layout,
        parts: &Parts,
    ) -> Result<SnapshotCoder> {
        match self {
            Target::Host => {
                SnapshotCoder::on_host(SnapshotCodec::of_parts(settings.clone(), layout, parts)?)
            }
            Target::Cuda(_) => SnapshotCoder::on_gpu(device, settings, layout, parts),
        }
    }
}
